// A map of any length: the whole in blocks, and what its window shows as near as that, asked for when the window rests.

import { activate } from "../../../transformer/canvas/shared/active.js";
import { themeOf } from "../../../transformer/canvas/shared/colours.js";
import { component } from "../../../transformer/canvas/shared/component.js";
import { button, element, focusedBeside, onOptions, pen, resized, say, screenRatio } from "../../../transformer/canvas/shared/page.js";
import { legendOf } from "../../../transformer/canvas/shared/saved.js";
import { counted, fill } from "../../../transformer/canvas/shared/words.js";
import { drawMap, geometry } from "./canvas.js";
import { saveTiles } from "./files.js";
import { meaning } from "./legend.js";
import { blockOf, spoken } from "./sentences.js";
import { panned, same, settled, showing, zoomed } from "./window.js";

/** @typedef {import("./window.js").Window} Window */
/** @typedef {import("./paint.js").Layer} Layer */

const RESTS = 200; // milliseconds without a movement after which the window's part is asked for
const STEP = 2; // how much nearer a button or key comes
const WHEEL = 0.0022; // how much nearer one unit of the wheel comes
const DRAG = 4; // pixels from which a press is a drag

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {string} instance
 * @property {string} of which map it is, as its part says too
 * @property {[number, number]} shape
 * @property {number} largest
 * @property {[number[], number[]]} edges rows and columns before which a line is drawn
 * @property {string} query_axis
 * @property {string} key_axis
 * @property {string} file_name
 * @property {import("../../../transformer/canvas/shared/saved.js").About} about
 * @property {[number, number]} rows
 * @property {[number, number]} columns
 * @property {number} tall
 * @property {number} wide
 * @property {Record<"save_png" | "nearer" | "farther" | "whole" | "name" | "hint" | "shown" | "blocks" | "cells" | "scale" |
 *   "scale_relative" | "masked" | "nan" | "axes" | "cell" | "cell_about" | "block" | "masked_cell" | "nan_cell" | "named", string>} words
 */

/**
 * @typedef {import("../../../transformer/canvas/shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   overview: Layer,
 *   layers: Layer[],
 *   theme: import("../../../transformer/canvas/shared/colours.js").Theme,
 *   relative: boolean,
 *   window: Window,
 *   told: Window | null,
 *   asked: Window[],
 *   place: import("./canvas.js").Geometry,
 *   cursor: [number, number],
 *   pointed: [number, number] | null,
 *   rests: ReturnType<typeof setTimeout> | undefined,
 *   forget: () => void,
 * }} View
 * `told` is the window that Python last had, `asked` those that it was asked for and has not answered; `cursor` is where
 * the keyboard stands, `pointed` the cell under the pointer.
 */

export default component("tiles", (frame) => {
  /** @type {Partial<View>} */
  const start = { layers: [], relative: false, told: null, asked: [], cursor: [0, 0], pointed: null, forget: () => {} };
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), start));
  view.save.onclick = () => saveTiles(view);
  view.nearer.onclick = () => move(view, zoomed(view.window, view.header.shape, STEP, 0.5, 0.5));
  view.farther.onclick = () => move(view, zoomed(view.window, view.header.shape, 1 / STEP, 0.5, 0.5));
  view.whole.onclick = () => move(view, all(view));
  listen(view);
  return {
    receive: ({ header, arrays }) => {
      const isNew = !view.header || view.header.instance !== header.instance || !same(view.header.shape, header.shape);
      Object.assign(view, { header, overview: { ...header, ...arrays } });
      view.layers = [view.overview];
      if (isNew) Object.assign(view, { window: all(view), told: null, asked: [], cursor: [0, 0], pointed: null });
      view.forget();
      view.forget = onOptions(`${header.instance}.part`, (part) => {
        if (part?.header.of !== view.header.of) return; // of another head, which is on its way
        view.layers = [view.overview, { ...part.header, ...part.arrays }];
        view.draw();
      });
    },
    adopt: (options) => adopt(view, options),
    draw: () => draw(view),
    close: () => {
      clearTimeout(view.rests);
      view.forget();
    },
  };
});

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const canvas = element("canvas", "", null, { tabindex: 0, role: "grid" });
  const legend = element("canvas", "legend-canvas", null, { "aria-hidden": "true" });
  const [block, reading] = [element("div", "block"), element("div", "reading")];
  const [nearer, farther, whole, save] = [0, 1, 2, 3].map(() => button("", () => {}));
  const tools = element("div", "bar");
  tools.append(nearer, farther, whole, save);
  root.append(tools, canvas, block, reading, legend);
  return { canvas, legend, block, reading, nearer, farther, whole, save };
}

/**
 * @param {View} view
 * @returns {Window}
 */
function all({ header: { shape } }) {
  return [0, shape[0], 0, shape[1]];
}

/**
 * Python's window moves this one where it is news, and no answer to an earlier movement.
 * @param {View} view
 * @param {{ window: Window, relative: boolean }} options
 */
function adopt(view, { window: said, relative }) {
  view.relative = relative;
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

/** @param {View} view */
function draw(view) {
  const { header, root, canvas } = view;
  const { words } = header;
  view.theme = themeOf(root);
  view.place = geometry(view, root.clientWidth);
  const { place } = view;
  say(view.nearer, words.nearer);
  say(view.farther, words.farther);
  say(view.whole, words.whole);
  say(view.save, words.save_png);
  const isWhole = same(view.window, all(view));
  view.whole.toggleAttribute("disabled", isWhole);
  view.farther.toggleAttribute("disabled", isWhole);
  canvas.style.touchAction = isWhole ? "auto" : "none";
  const hasFocus = focusedBeside(root) === canvas;
  const context = resized(canvas, place.wide, place.tall, screenRatio());
  Object.assign(canvas.style, { width: `${place.wide}px`, height: `${place.tall}px` });
  drawMap(context, view, place, hasFocus ? view.cursor : null);
  const [top, bottom, left, right] = settled(view.window, header.shape);
  const spans = { first_row: counted(top + 1), last_row: counted(bottom), first_column: counted(left + 1), last_column: counted(right) };
  say(view.block, `${fill(words.shown, spans)} ${blockOf(header, view.layers[view.layers.length - 1])}`);
  const here = view.pointed ?? (hasFocus ? view.cursor : null);
  say(view.reading, here ? spoken(view, here) : words.hint);
  drawLegend(view);
  expose(view, hasFocus);
  const part = view.layers[view.layers.length - 1];
  Object.assign(root.dataset, {
    window: JSON.stringify([top, bottom, left, right]),
    part: JSON.stringify([...part.rows, ...part.columns]),
    block: `${part.tall}x${part.wide}`,
    asked: String(view.asked.length),
    map: JSON.stringify([place.left, place.top, place.width, place.height]),
  });
}

/** @param {View} view */
function drawLegend(view) {
  const width = view.root.clientWidth;
  const legend = legendOf(pen(element("canvas")), meaning(view), width, view.theme);
  const context = resized(view.legend, width, legend.height, screenRatio());
  Object.assign(view.legend.style, { width: `${width}px`, height: `${legend.height}px` });
  legend.paint(context, 0, 0);
}

/**
 * Tell screen readers of the map, and of the cell where the keyboard stands.
 * @param {View} view
 * @param {boolean} hasFocus
 */
function expose(view, hasFocus) {
  const { canvas, header, cursor } = view;
  const [rows, columns] = header.shape;
  canvas.setAttribute("aria-label", fill(header.words.name, { rows: counted(rows), columns: counted(columns) }));
  canvas.setAttribute("aria-rowcount", String(rows));
  canvas.setAttribute("aria-colcount", String(columns));
  if (!hasFocus) return;
  const [row, column] = cursor;
  activate(canvas, "gridcell", spoken(view, cursor), { "aria-colindex": column + 1 }, ["row", { "aria-rowindex": row + 1 }]);
}

/**
 * The cell at a point of the canvas; null beside the map.
 * @param {View} view
 * @param {{ offsetX: number, offsetY: number }} point
 * @returns {[number, number] | null}
 */
function cellAt({ place, window: [top, bottom, left, right] }, { offsetX, offsetY }) {
  const [down, across] = [(offsetY - place.top) / place.height, (offsetX - place.left) / place.width];
  if (down < 0 || down >= 1 || across < 0 || across >= 1) return null;
  return [Math.floor(top + down * (bottom - top)), Math.floor(left + across * (right - left))];
}

/** @param {View} view */
function listen(view) {
  const { canvas } = view;
  /** @type {{ x: number, y: number, from: Window, moved: boolean } | null} */
  let drag = null;
  /**
   * @param {MouseEvent} event
   * @returns {[across: number, down: number]}
   */
  const share = ({ offsetX, offsetY }) => [
    Math.min(Math.max((offsetX - view.place.left) / view.place.width, 0), 1),
    Math.min(Math.max((offsetY - view.place.top) / view.place.height, 0), 1),
  ];
  canvas.onwheel = (event) => {
    if (focusedBeside(view.root) !== canvas && !event.ctrlKey) return; // the page scrolls until the map was clicked
    event.preventDefault();
    const units = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    move(view, zoomed(view.window, view.header.shape, Math.exp(-units * WHEEL), ...share(event)));
  };
  canvas.onpointerdown = (event) => {
    if (event.button !== 0) return;
    drag = { x: event.offsetX, y: event.offsetY, from: view.window, moved: false };
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    view.pointed = cellAt(view, event);
    if (drag) {
      const [x, y] = [event.offsetX - drag.x, event.offsetY - drag.y];
      drag.moved ||= Math.hypot(x, y) >= DRAG;
      const { window: [top, bottom, left, right], place } = view;
      const [down, across] = [(-y / place.height) * (bottom - top), (-x / place.width) * (right - left)];
      if (drag.moved) move(view, panned(drag.from, view.header.shape, down, across));
    }
    view.draw();
  };
  canvas.onpointerup = (event) => {
    const cell = cellAt(view, event);
    if (cell && drag && !drag.moved) view.cursor = cell;
    drag = null;
    view.draw();
  };
  canvas.onpointercancel = () => (drag = null);
  canvas.onpointerleave = () => {
    view.pointed = null;
    view.draw();
  };
  canvas.ondblclick = (event) => move(view, zoomed(view.window, view.header.shape, 2 * STEP, ...share(event)));
  canvas.onfocus = canvas.onblur = () => view.draw();
  canvas.onkeydown = (event) => {
    const to = keyed(view, event);
    if (!to) return;
    event.preventDefault();
    view.pointed = null;
    if (to.cursor) view.cursor = to.cursor;
    move(view, to.window);
  };
}

/**
 * Where a key leads: the cursor by a cell (by a block while there are such; with Shift by an eighth of what is seen), or
 * the window nearer, farther, to the whole; undefined for any other key.
 * @param {View} view
 * @param {KeyboardEvent} event
 * @returns {{ window: Window, cursor?: [number, number] } | undefined}
 */
function keyed(view, { key, shiftKey }) {
  const { window: [top, bottom, left, right], header: { shape } } = view;
  const part = view.layers[view.layers.length - 1];
  const [row, column] = view.cursor;
  const by = (/** @type {number} */ block, /** @type {number} */ span) => (shiftKey ? Math.max(block, Math.round(span / 8)) : block);
  const [down, across] = [by(part.tall, bottom - top), by(part.wide, right - left)];
  /** @type {Record<string, [number, number]>} */
  const steps = {
    ArrowUp: [row - down, column], ArrowDown: [row + down, column],
    ArrowLeft: [row, column - across], ArrowRight: [row, column + across],
    Home: [row, 0], End: [row, shape[1] - 1],
  };
  if (steps[key]) {
    const cursor = /** @type {[number, number]} */ (steps[key].map((at, side) => Math.min(Math.max(at, 0), shape[side] - 1)));
    return { cursor, window: showing(view.window, shape, cursor) };
  }
  /** @type {Record<string, number>} */
  const factors = { "+": STEP, "=": STEP, Enter: 2 * STEP, "-": 1 / STEP, _: 1 / STEP };
  if (key === "0" || key === "Escape") return { window: all(view) };
  if (!factors[key]) return undefined;
  const inside = (/** @type {number} */ at, /** @type {number} */ from, /** @type {number} */ to) => Math.min(Math.max((at + 0.5 - from) / (to - from), 0), 1);
  return { window: zoomed(view.window, shape, factors[key], inside(column, left, right), inside(row, top, bottom)) };
}
