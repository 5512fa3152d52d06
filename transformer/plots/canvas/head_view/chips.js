// The legend of heads, which is also the switch: one chip a head.

import { headColour } from "../shared/colours.js";
import { element } from "../shared/page.js";

/**
 * What chips do: switch a head, show it alone, or show it alone while it is pointed at (null: no longer).
 * @typedef {object} ChipActions
 * @property {(head: number) => void} toggle
 * @property {(head: number) => void} isolate
 * @property {(head: number | null) => void} preview
 */

/**
 * Fill `box` with a chip a head.
 * @param {HTMLElement} box
 * @param {string[]} names
 * @param {ChipActions} act
 */
export function makeChips(box, names, act) {
  const chips = names.map((name, head) => {
    const chip = element("button", "chip", null, { type: "button", tabindex: head ? "-1" : "0" });
    chip.append(element("span", "dot"), element("span", "", name));
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

/**
 * Show which heads are on, in this theme's colours; `hint` says what a chip does.
 * @param {HTMLElement[]} chips
 * @param {number[]} active
 * @param {import("../shared/colours.js").Theme} theme
 * @param {string} hint
 */
export function updateChips(chips, active, theme, hint) {
  chips.forEach((chip, head) => {
    chip.title = hint;
    chip.setAttribute("aria-pressed", String(active.includes(head)));
    /** @type {HTMLElement} */ (chip.firstChild).style.background = headColour(head, theme, active.length);
  });
}
