// The two columns of tokens.

import { element, say } from "../shared/page.js";
import { ROW } from "../shared/lines.js";

/** @typedef {ReturnType<typeof makeColumn>} Column */

/** @typedef {{ number: string, locked: boolean, focus: boolean, paired: boolean }} Look How a token looks. */

/**
 * A column's box, its elements, and the `row` of its first token.
 * @param {import("../shared/sides.js").Side} side
 */
export function makeColumn(side) {
  const box = element("div", `column ${side}`, null, { role: "listbox", "data-side": side });
  return { side, box, row: 0, tokens: /** @type {HTMLElement[]} */ ([]) };
}

/**
 * Make the elements of a column's tokens.
 * @param {Column} column
 * @param {string[]} labels
 */
export function fillColumn(column, labels) {
  column.tokens = labels.map((label, index) => {
    const place = { "aria-posinset": index + 1, "aria-setsize": labels.length };
    const made = element("div", "token", null, { role: "option", "data-side": column.side, "data-index": index, ...place });
    made.title = label;
    made.append(element("span", "text", label, { dir: "auto" }), element("span", "number"));
    return made;
  });
  column.box.replaceChildren(...column.tokens);
}

/**
 * Bring a column's elements in line with the view; `look(index)` tells how each token looks, `current` has the Tab key.
 * @param {Column} column
 * @param {string[]} labels
 * @param {number} current
 * @param {(index: number) => Look} look
 */
export function updateColumn({ row, tokens }, labels, current, look) {
  tokens.forEach((made, index) => {
    const { number, locked, focus, paired } = look(index);
    made.style.top = `${(index + row) * ROW}px`;
    made.tabIndex = index === current ? 0 : -1;
    made.setAttribute("aria-selected", String(locked));
    made.setAttribute("aria-label", `${labels[index]}${number ? `, ${number}` : ""}`);
    for (const [name, isOn] of Object.entries({ locked, focus, paired })) made.classList.toggle(name, isOn);
    say(made.children[1], number);
  });
}
