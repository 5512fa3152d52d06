// The legend of heads, which is also the switch: one chip a head.

import { headColour } from "./colours.js";
import { element } from "./page.js";

/** Fill `box` with a chip a head. `act` has toggle(head), isolate(head) and preview(head or null). */
export function makeChips(box, names, act) {
  const chips = names.map((name, head) => {
    const chip = element("button", "chip", null, { type: "button", tabindex: head ? "-1" : "0" });
    chip.append(element("span", "dot"), element("span", "", name));
    chip.title = "Click: show or hide. Double-click: this head alone, then all again.";
    chip.onclick = () => act.toggle(head);
    chip.ondblclick = () => act.isolate(head);
    chip.onpointerenter = (event) => event.pointerType !== "touch" && act.preview(head);
    chip.onpointerleave = () => act.preview(null);
    chip.onfocus = () => chips.forEach((other) => (other.tabIndex = other === chip ? 0 : -1));
    chip.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (event.key === "Enter" && event.shiftKey) act.isolate(head);
      else if (event.key === "Enter" || event.key === " ") act.toggle(head);
      else if (step) chips[(head + step + chips.length) % chips.length].focus();
      else return;
      event.preventDefault();
    };
    return chip;
  });
  box.replaceChildren(...chips);
  return chips;
}

/** Show which heads are on, in this theme's colours. */
export function updateChips(chips, active, theme) {
  chips.forEach((chip, head) => {
    chip.setAttribute("aria-pressed", String(active.includes(head)));
    chip.firstChild.style.background = headColour(head, theme);
  });
}
