// The two columns of tokens. Only those in view (and the one that has the keyboard) are elements of the page.

import { element, focusedBeside } from "../shared/page.js";
import { ROW } from "../shared/lines.js";

const MARGIN = 4; // rows kept ready above and below the view

/** @typedef {ReturnType<typeof makeColumn>} Column */

/** @typedef {{ number: string, locked: boolean, focus: boolean, paired: boolean }} Look How a token looks. */

/**
 * Bring a column's elements in line with what is in view; `look(index)` tells how each token looks.
 * @param {Column} column
 * @param {string[]} labels
 * @param {number} current
 * @param {number} top
 * @param {number} height
 * @param {(index: number) => Look} look
 */
export function updateColumn(column, labels, current, top, height, look) {
  const first = Math.max(Math.floor(top / ROW) - MARGIN - column.row, 0);
  const last = Math.min(Math.ceil((top + height) / ROW) + MARGIN - column.row, labels.length) - 1;
  const focused = focusedBeside(column.box);
  for (const [index, made] of column.tokens) {
    const wanted = (index >= first && index <= last) || index === current || made === focused;
    if (index < labels.length && wanted) continue;
    made.remove();
    column.tokens.delete(index);
  }
  for (let index = first; index <= last; index++) token(column, index);
  if (labels.length) token(column, current);
  for (const [index, made] of column.tokens) {
    put(made, column, index);
    describe(made, labels, index, index === current, look(index));
  }
}

/**
 * The element of token number `index`, made now if it was out of view.
 * @param {Column} column
 * @param {number} index
 */
export function token(column, index) {
  const known = column.tokens.get(index);
  if (known) return known;
  const made = element("div", "token", null, { role: "option", "data-side": column.side, "data-index": index });
  put(made, column, index);
  made.append(element("span", "text", "", { dir: "auto" }), element("span", "number"));
  column.tokens.set(index, made);
  const next = [...column.box.children].find((other) => Number(other.getAttribute("data-index")) > index);
  column.box.insertBefore(made, next ?? null);
  return made;
}

/**
 * @param {HTMLElement} made
 * @param {Column} column
 * @param {number} index
 */
function put(made, column, index) {
  made.style.top = `${(index + column.row) * ROW}px`;
}

/**
 * @param {HTMLElement} made
 * @param {string[]} labels
 * @param {number} index
 * @param {boolean} current
 * @param {Look} look
 */
function describe(made, labels, index, current, look) {
  const [text, number] = made.children;
  if (text.textContent !== labels[index]) {
    text.textContent = labels[index];
    made.title = labels[index];
  }
  made.tabIndex = current ? 0 : -1;
  made.setAttribute("aria-posinset", String(index + 1));
  made.setAttribute("aria-setsize", String(labels.length));
  made.setAttribute("aria-selected", String(look.locked));
  made.setAttribute("aria-label", `${labels[index]}${look.number ? `, ${look.number}` : ""}`);
  made.classList.toggle("locked", look.locked);
  made.classList.toggle("focus", look.focus);
  made.classList.toggle("paired", look.paired);
  if (number.textContent !== look.number) number.textContent = look.number;
}

/**
 * A column's box, its elements by index, and its name.
 * @param {import("../shared/sides.js").Side} side
 */
export function makeColumn(side) {
  const box = element("div", `column ${side}`, null, { role: "listbox", "data-side": side });
  return { side, box, row: 0, tokens: /** @type {Map<number, HTMLElement>} */ (new Map()) }; // `row` of its first token
}
