// A long map: the whole in blocks, and what its window shows as near as that, asked for once the window rests; how the
// window zooms and moves, and where its ticks stand.

import { blockAt, MASKED } from "../shared/cells.js";
import { moved } from "../shared/grid.js";
import { focusedBeside } from "../shared/page.js";
import { counted, fill, rounded, same, ticksOf } from "../shared/words.js";

/** @typedef {[top: number, bottom: number, left: number, right: number]} Window What is seen: cells, from 0. */
/** @typedef {import("./heatmap.js").View} View */

const RESTS = 200; // milliseconds without a movement after which the window's part is asked for
const STEP = 2; // how much nearer a button or key comes
const WHEEL = 0.0022; // how much nearer one unit of the wheel comes
const DRAG = 4; // pixels from which a press is a drag
const LEAST = 4; // cells along a side of the window, where there are so many

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
  const by = (/** @type {number} */ factor, across = 0.5, down = 0.5) =>
    move(view, zoomed(view.window, view.header.shape, factor, across, down));
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
    // The page scrolls until the map was clicked.
    if (!view.header.long || (focusedBeside(canvas) !== canvas && !event.ctrlKey)) return;
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
  const { onkeydown } = canvas;
  canvas.onkeydown = (event) => {
    if (!view.header.long) return onkeydown?.call(canvas, event);
    if (!press(view, event)) return undefined;
    view.pointed = null;
    return event.preventDefault();
  };
  canvas.ondblclick = (event) => view.header.long && by(2 * STEP, ...share(event));
}

/**
 * What a key does: the cursor moves by a cell (by a block while there are such), or the window comes nearer, goes
 * farther, shows the whole; false for any other key.
 * @param {View} view
 * @param {KeyboardEvent} event
 */
function press(view, event) {
  const { key } = event;
  const { window: [top, bottom, left, right], header: { shape }, current: [row, column] } = view;
  const part = view.layers[view.layers.length - 1];
  const to = moved(event, view.current, shape[0], shape[1], part.tall, part.wide);
  if (to) {
    view.current = to;
    move(view, showing(view.window, shape, to));
    return true;
  }
  /** @type {Record<string, number>} */
  const factors = { "+": STEP, "=": STEP, Enter: 2 * STEP, "-": 1 / STEP, _: 1 / STEP };
  const inside = (/** @type {number} */ at, /** @type {number} */ from, /** @type {number} */ end) =>
    Math.min(Math.max((at + 0.5 - from) / (end - from), 0), 1);
  if (key === "0" || key === "Escape") move(view, all(view));
  else if (factors[key]) {
    const [across, down] = [inside(column, left, right), inside(row, top, bottom)];
    move(view, zoomed(view.window, shape, factors[key], across, down));
  } else return false;
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
 * One sentence about a cell, or the block that it is in.
 * @param {Pick<View, "header" | "layers">} view
 * @param {[number, number]} cell
 */
export function spoken({ header, layers }, cell) {
  const { words, largest, axis } = header;
  const here = blockAt(layers, largest, cell);
  if (!here) return "";
  /**
   * @param {number[]} spans
   * @param {string[] | undefined} names
   * @param {number[]} covered
   */
  const name = (spans, names, covered) =>
    (names?.length ? fill(words.named, { place: span(spans), name: names[spans[0] - covered[0]] }) : span(spans));
  const { layer } = here;
  const fields = {
    query_axis: axis.queries,
    key_axis: axis.keys,
    query: name(here.rows, layer.queries, layer.rows),
    key: name(here.columns, layer.keys, layer.columns),
    weight: rounded(here.weight, here.exact ? 6 : 2), // a code has no more
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
  const spans = {
    first_row: counted(top + 1), last_row: counted(bottom),
    first_column: counted(left + 1), last_column: counted(right),
  };
  const block = tall * wide === 1 ? words.cells : fill(words.blocks, { tall: counted(tall), wide: counted(wide) });
  return `${fill(words.shown, spans)} ${block}`;
}

/**
 * A span of `length` cells from `start`, moved and shortened so that it lies within `count` cells.
 * @param {number} start
 * @param {number} length
 * @param {number} count
 * @returns {[number, number]}
 */
function within(start, length, count) {
  const size = Math.min(Math.max(length, Math.min(LEAST, count)), count);
  const from = Math.min(Math.max(start, 0), count - size);
  return [from, from + size];
}

/**
 * The window `factor` times as near, where the cell at the share (across, down) of it keeps its place.
 * @param {Window} window
 * @param {[number, number]} shape
 * @param {number} factor
 * @param {number} across
 * @param {number} down
 * @returns {Window}
 */
export function zoomed([top, bottom, left, right], [rows, columns], factor, across, down) {
  /**
   * @param {number} from
   * @param {number} to
   * @param {number} count
   * @param {number} share
   */
  const side = (from, to, count, share) => {
    const size = Math.min(Math.max((to - from) / factor, Math.min(LEAST, count)), count);
    return within(from + share * (to - from) - share * size, size, count);
  };
  return [...side(top, bottom, rows, down), ...side(left, right, columns, across)];
}

/**
 * The window moved by so many cells.
 * @param {Window} window
 * @param {[number, number]} shape
 * @param {number} down
 * @param {number} across
 * @returns {Window}
 */
export function panned([top, bottom, left, right], [rows, columns], down, across) {
  return [...within(top + down, bottom - top, rows), ...within(left + across, right - left, columns)];
}

/**
 * The window moved as little as it takes to show a cell.
 * @param {Window} window
 * @param {[number, number]} shape
 * @param {[number, number]} cell
 * @returns {Window}
 */
export function showing(window, shape, [row, column]) {
  const [top, bottom, left, right] = window;
  const past = (/** @type {number} */ place, /** @type {number} */ from, /** @type {number} */ to) =>
    place < from ? place - from : Math.max(0, place + 1 - to);
  return panned(window, shape, past(row, top, bottom), past(column, left, right));
}

/**
 * The whole cells that a window touches.
 * @param {Window} window
 * @param {[number, number]} shape
 * @returns {Window}
 */
export function settled([top, bottom, left, right], [rows, columns]) {
  const near = 1e-6; // what rounding adds is no cell
  return [
    Math.max(0, Math.floor(top + near)), Math.min(rows, Math.ceil(bottom - near)),
    Math.max(0, Math.floor(left + near)), Math.min(columns, Math.ceil(right - near)),
  ];
}

/**
 * Cells to be numbered along a side that shows `from` to `to` in `room` pixels: round numbers, counted from 1.
 * @param {number} from
 * @param {number} to
 * @param {number} room
 * @param {number} apart pixels from one to the next, at least
 * @returns {number[]}
 */
export function ticks(from, to, room, apart) {
  const found = ticksOf(from + 1, to, Math.max(1, Math.floor(room / apart)), 1).map((one) => one - 1);
  return found.length && found[0] > from && from < 1 ? [0, ...found] : found;
}
