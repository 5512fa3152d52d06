// What pointer and keyboard do in a head view.

import { enlarged } from "../shared/page.js";
import { nearest, ROW } from "../shared/lines.js";
import { followWords, positionOf } from "../shared/sides.js";

const PAUSE = 300; // milliseconds without another change of heads before the address is written: a double click is one change

/** @typedef {import("./head_view.js").View} View */
/** @typedef {import("../shared/sides.js").Position} Position */

/**
 * Listen on the view's elements; returns what its chips do.
 * @param {View} view
 */
export function listen(view) {
  const { sheet, root, choices } = view;
  followWords(sheet, (position) => hover(view, position), ({ side, index }) => (choices.current[side] = index));
  sheet.onpointermove = (event) => point(view, positionOf(event.target) ? null : lineUnder(view, event));
  sheet.onpointerleave = () => point(view, null);
  sheet.onclick = (event) => {
    const position = positionOf(event.target);
    if (position) press(view, position);
    else {
      const line = lineUnder(view, event);
      if (line) pickPair(view, line.query, line.key);
    }
  };
  root.onkeydown = (event) => {
    const position = positionOf(event.target);
    if (event.key === "Escape" && choices.locked) lock(view, null);
    else if (position && (event.key === "Enter" || event.key === " ")) press(view, position);
    else if (!position || !move(view, position, event.key)) return;
    event.preventDefault();
  };
}

/**
 * @param {View} view
 * @param {Position | null} position
 */
function hover(view, position) {
  if (!position && !view.choices.hovered) return;
  view.choices.hovered = position;
  view.draw();
}

/**
 * @param {View} view
 * @param {import("../shared/lines.js").Line | null} line
 */
function point(view, line) {
  const { pointed } = view;
  if (pointed?.head === line?.head && pointed?.query === line?.query && pointed?.key === line?.key) return;
  view.pointed = line;
  view.sheet.classList.toggle("pointing", Boolean(line));
  view.draw();
}

/**
 * @param {View} view
 * @param {MouseEvent} event
 */
function lineUnder(view, event) {
  if (!view.measures) return null;
  const box = view.sheet.getBoundingClientRect();
  const [x, y] = [(event.clientX - box.left) / enlarged(), (event.clientY - box.top) / enlarged()];
  return nearest([...view.nan, ...view.lines], x, y, view.measures);
}

/**
 * A click or Enter on a token: lock it, release it, or, across from the locked one, select the pair.
 * @param {View} view
 * @param {Position} position
 */
function press(view, position) {
  const { locked } = view.choices;
  if (!locked || (locked.side === position.side && locked.index !== position.index)) lock(view, position);
  else if (locked.side === position.side) lock(view, null);
  else if (position.side === "query") pickPair(view, position.index, locked.index);
  else pickPair(view, locked.index, position.index);
}

/**
 * @param {View} view
 * @param {Position | null} position
 */
function lock(view, position) {
  view.choices.locked = position;
  view.draw();
}

/**
 * @param {View} view
 * @param {number} query
 * @param {number} key
 */
function pickPair(view, query, key) {
  view.choices.pair = [query, key];
  view.send("pair", { query, key });
  view.draw();
}

/**
 * Arrow keys: up and down within a column, left and right across; Home and End to its ends.
 * @param {View} view
 * @param {Position} position
 * @param {string} key
 */
function move(view, position, key) {
  const counts = { query: view.header.shape[1], key: view.header.shape[2] };
  /** @type {import("../shared/sides.js").Side} */
  const side = key === "ArrowLeft" ? "query" : key === "ArrowRight" ? "key" : position.side;
  const last = counts[side] - 1;
  const index = {
    ArrowUp: position.index - 1,
    ArrowDown: position.index + 1,
    ArrowLeft: position.index,
    ArrowRight: position.index,
    Home: 0,
    End: last,
  }[key];
  if (index === undefined) return false;
  focusToken(view, side, Math.min(Math.max(index, 0), last));
  return true;
}

/**
 * @param {View} view
 * @param {import("../shared/sides.js").Side} side
 * @param {number} index
 */
function focusToken(view, side, index) {
  const { scroller } = view;
  const row = index + view.columns[side].row;
  if (row * ROW < scroller.scrollTop) scroller.scrollTop = row * ROW;
  const below = (row + 1) * ROW - scroller.clientHeight;
  if (below > scroller.scrollTop) scroller.scrollTop = below;
  view.columns[side].tokens[index].focus(); // scrolls the window too, where the view is taller than it
}

/**
 * What chips do.
 * @param {View} view
 * @returns {import("./chips.js").ChipActions}
 */
export function chipActions(view) {
  const { choices } = view;
  const change = (/** @type {number[]} */ active) => {
    choices.previewed = null;
    choices.active = active;
    view.draw();
    clearTimeout(choices.telling);
    choices.telling = window.setTimeout(() => {
      choices.telling = 0;
      view.send("heads", choices.active);
    }, PAUSE);
  };
  const all = () => view.header.heads.map((_, head) => head);
  return {
    toggle: (head) => change(all().filter((other) => choices.active.includes(other) !== (other === head))),
    isolate: (head) => change(choices.active.length === 1 && choices.active[0] === head ? all() : [head]),
    preview: (head) => {
      choices.previewed = head;
      view.draw();
    },
  };
}
