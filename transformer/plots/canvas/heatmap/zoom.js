// A long map: the whole in blocks, and what its window shows as near as that, asked for once the window rests.

import { blockAt, MASKED } from "../shared/cells.js";
import { moved } from "../shared/grid.js";
import { focusedBeside } from "../shared/page.js";
import { counted, fill } from "../shared/words.js";
import { panned, same, settled, showing, zoomed } from "./window.js";

/** @typedef {import("./window.js").Window} Window */
/** @typedef {import("./heatmap.js").View} View */

const RESTS = 200; // milliseconds without a movement after which the window's part is asked for
const STEP = 2; // how much nearer a button or key comes
const WHEEL = 0.0022; // how much nearer one unit of the wheel comes
const DRAG = 4; // pixels from which a press is a drag

/**
 * @param {Pick<View, "header">} view
 * @returns {Window}
 */
export function all({ header: { shape } }) {
  return [0, shape[0], 0, shape[1]];
}

/**
 * Python's window moves this one where it is news, and no answer to an earlier movement.
 * @param {View} view
 * @param {Window} said
 */
export function adopt(view, said) {
  const answered = view.asked.findIndex((one) => same(one, said));
  if (answered >= 0) view.asked.splice(0, answered + 1);
  else if (!view.told || !same(view.told, said)) {
    clearTimeout(view.rests);
    view.asked = [];
    view.window = said;
  }
  view.told = said;
}

/**
 * Move the window; once it rests, ask for its part.
 * @param {View} view
 * @param {Window} to
 */
function move(view, to) {
  view.window = to;
  view.draw();
  clearTimeout(view.rests);
  view.rests = setTimeout(() => {
    const found = settled(view.window, view.header.shape);
    view.window = found;
    view.draw();
    const last = view.asked.at(-1) ?? view.told;
    if (last && same(last, found)) return;
    view.asked.push(found);
    const [top, bottom, left, right] = found;
    view.send("window", { rows: [top, bottom], columns: [left, right] });
  }, RESTS);
}

/**
 * What the buttons do, and how the pointer moves the window; `cellAt` finds the cell at an event.
 * @param {View} view
 * @param {(event: MouseEvent) => [number, number] | null} cellAt
 */
export function listenForZoom(view, cellAt) {
  const { canvas, zooms: [nearer, farther, whole] } = view;
  const by = (/** @type {number} */ factor, across = 0.5, down = 0.5) => move(view, zoomed(view.window, view.header.shape, factor, across, down));
  nearer.onclick = () => by(STEP);
  farther.onclick = () => by(1 / STEP);
  whole.onclick = () => move(view, all(view));
  /** @type {{ x: number, y: number, from: Window, moved: boolean } | null} */
  let drag = null;
  const share = (/** @type {MouseEvent} */ { offsetX, offsetY }) => {
    const { left, top, across, down } = view.measures;
    const inside = (/** @type {number} */ one) => Math.min(Math.max(one, 0), 1);
    return /** @type {const} */ ([inside((offsetX - left) / across), inside((offsetY - top) / down)]);
  };
  canvas.addEventListener("wheel", (event) => {
    if (!view.header.long || (focusedBeside(canvas) !== canvas && !event.ctrlKey)) return; // the page scrolls until the map was clicked
    event.preventDefault();
    const units = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    by(Math.exp(-units * WHEEL), ...share(event));
  }, { passive: false });
  canvas.onpointerdown = (event) => {
    if (!view.header.long || event.button !== 0) return;
    drag = { x: event.offsetX, y: event.offsetY, from: view.window, moved: false };
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = [event.offsetX - drag.x, event.offsetY - drag.y];
    drag.moved ||= Math.hypot(x, y) >= DRAG;
    const { cell, tall } = view.measures;
    if (drag.moved) move(view, panned(drag.from, view.header.shape, -y / tall, -x / cell));
  });
  canvas.onpointerup = (event) => {
    const cell = cellAt(event);
    if (cell && drag && !drag.moved) view.current = cell;
    drag = null;
    view.draw();
  };
  canvas.onpointercancel = () => (drag = null);
  canvas.ondblclick = (event) => view.header.long && by(2 * STEP, ...share(event));
}

/**
 * What a key does: the cursor moves by a cell (by a block while there are such; with Shift by an eighth of what is seen),
 * or the window comes nearer, goes farther, shows the whole; false for any other key.
 * @param {View} view
 * @param {KeyboardEvent} event
 */
export function press(view, event) {
  const { key, shiftKey } = event;
  const { window: [top, bottom, left, right], header: { shape }, current: [row, column] } = view;
  const part = view.layers[view.layers.length - 1];
  const by = (/** @type {number} */ block, /** @type {number} */ shown) => (shiftKey ? Math.max(block, Math.round(shown / 8)) : block);
  const [down, across] = [by(part.tall, bottom - top), by(part.wide, right - left)];
  const to = moved(event, view.current, shape[0], shape[1], down, across);
  if (to) {
    view.current = to;
    move(view, showing(view.window, shape, to));
    return true;
  }
  /** @type {Record<string, number>} */
  const factors = { "+": STEP, "=": STEP, Enter: 2 * STEP, "-": 1 / STEP, _: 1 / STEP };
  const inside = (/** @type {number} */ at, /** @type {number} */ from, /** @type {number} */ end) => Math.min(Math.max((at + 0.5 - from) / (end - from), 0), 1);
  if (key === "0" || key === "Escape") move(view, all(view));
  else if (factors[key]) move(view, zoomed(view.window, shape, factors[key], inside(column, left, right), inside(row, top, bottom)));
  else return false;
  return true;
}

/**
 * A span of cells as it is counted: `12` or `12–19`.
 * @param {number[]} span
 */
function span([from, to]) {
  return to - from === 1 ? counted(from + 1) : `${counted(from + 1)}–${counted(to)}`;
}

/**
 * A weight as it is read: six digits where it is exact, else two, since a code has no more.
 * @param {number} weight
 * @param {boolean} exact
 */
export function number(weight, exact) {
  return String(Number(weight.toPrecision(exact ? 6 : 2)));
}

/**
 * One sentence about a cell, or the block that it is in.
 * @param {Pick<View, "header" | "layers">} view
 * @param {[number, number]} cell
 */
export function spoken({ header, layers }, cell) {
  const { words, largest, axis } = header;
  const here = blockAt(layers, largest, cell);
  if (!here) return "";
  const name = (/** @type {number[]} */ spans, /** @type {string[] | undefined} */ names, /** @type {number[]} */ covered) =>
    (names?.length ? fill(words.named, { place: span(spans), name: names[spans[0] - covered[0]] }) : span(spans));
  const { layer } = here;
  const fields = {
    query_axis: axis.queries,
    key_axis: axis.keys,
    query: name(here.rows, layer.queries, layer.rows),
    key: name(here.columns, layer.keys, layer.columns),
    weight: number(here.weight, here.exact),
  };
  if (here.weight === MASKED) return fill(words.cell, { ...fields, weight: words.masked });
  if (Number.isNaN(here.weight)) return fill(words.cell, { ...fields, weight: words.nan });
  const single = here.rows[1] - here.rows[0] === 1 && here.columns[1] - here.columns[0] === 1;
  return fill(here.exact ? words.cell : single ? words.cell_about : words.block, fields);
}

/**
 * Which part of the map is seen, and what one block of it is.
 * @param {Pick<View, "header" | "layers" | "window">} view
 */
export function seen({ header: { words, shape }, layers, window }) {
  const { tall, wide } = layers[layers.length - 1];
  const [top, bottom, left, right] = settled(window, shape);
  const spans = { first_row: counted(top + 1), last_row: counted(bottom), first_column: counted(left + 1), last_column: counted(right) };
  return `${fill(words.shown, spans)} ${tall * wide === 1 ? words.cells : fill(words.blocks, { tall: counted(tall), wide: counted(wide) })}`;
}
