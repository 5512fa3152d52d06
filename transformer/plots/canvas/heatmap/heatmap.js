// One matrix of any size: queries down, keys across, one colour a number. It is a head of the page's record, a picture
// that Python sends, or a long map that is seen through a window. Point at a cell, or walk there, to read its number.

import { agreement, MASKED, rowOf, wholeOf } from "../shared/cells.js";
import { themeOf } from "../shared/colours.js";
import { component } from "../shared/component.js";
import { activate, walk } from "../shared/grid.js";
import { toggled, weightsOf } from "../shared/local.js";
import { button, element, enlarged, focusedBeside, resized, save, say, screenRatio, toolbar } from "../shared/page.js";
import { savePicture } from "../shared/saved.js";
import { paintScene } from "../shared/scene.js";
import { counted, fill, same, written } from "../shared/words.js";
import { around, measuresOf, sceneOf } from "./scene.js";
import { adopt, all, listenForZoom, seen, spoken } from "./zoom.js";

const LEAST = 460; // CSS pixels of width that a title and the facts get in a picture

/**
 * A matrix and what is said of it.
 * @typedef {object} Header
 * @property {Record<"save_png" | "save_svg" | "empty" | "name" | "told" | "masked" | "nan" | "marks" | "hint" |
 *   "hint_read" | "hint_long" | "decided" | "agree" | "none" | "unknown" | "relative" | "unit" | "ends" | "nothing" |
 *   "nearer" | "farther" | "whole" | "shown" | "blocks" | "cells" | "named" | "cell" | "cell_about" |
 *   "block", string>} words
 * @property {string} title
 * @property {string} file_name
 * @property {import("../shared/local.js").Axis} queries
 * @property {import("../shared/local.js").Axis} keys
 * @property {string} unit what the numbers are
 * @property {boolean} centred whether the scale has its middle at 0
 * @property {{ queries: string, keys: string, notes: string, facts: string[], edges: [number[], number[]] }} axis
 * @property {boolean} [table] whether rows and columns are called as their axes, and cells are as tall as they have
 *   room
 * @property {boolean} dense whether cells shrink until the map fits its room, and not each query and key is named
 * @property {number | null} [end] where the colours end, if maps share a scale
 * @property {boolean} [fixed] whether the scale is not the reader's to change
 * @property {string} save_csv what the button says that saves the map's numbers; empty for none
 * @property {object} [scores] of a head, which are shown instead of its weights
 * @property {import("../shared/local.js").Kind} [kind] of the page's record
 * @property {number} [layer]
 * @property {boolean} [long] whether a window of it is seen; then:
 * @property {[number, number]} shape
 * @property {number} largest the largest weight of all
 * @property {[Layer, Layer]} layers the whole in blocks, and what the window shows, without their numbers
 */

/** @typedef {import("../shared/cells.js").Layer} Layer */

/**
 * @typedef {import("../shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   layers: Layer[],
 *   theme: import("../shared/colours.js").Theme,
 *   measures: import("./scene.js").Measures,
 *   pair: [number, number] | null,
 *   relative: boolean,
 *   current: [number, number],
 *   pointed: [number, number] | null,
 *   window: import("./zoom.js").Window,
 *   told: import("./zoom.js").Window | null,
 *   asked: import("./zoom.js").Window[],
 *   rests: ReturnType<typeof setTimeout> | undefined,
 * }} View
 * `pair` is the marked cell, `current` the one where the keyboard stands, `pointed` the one under the pointer. Of a
 * long map, `told` is the window that Python last had, `asked` those that it was asked for and has not answered.
 */

/** @type {import("../shared/local.js").Local} */
const local = {
  seen(header, _, choice, _allowed, arrays) {
    const { kind, layer, head, pair, relative } = choice;
    const { scores } = header;
    if (scores) {
      if (scores.site !== kind.sites[layer] || scores.head !== head) return null; // those of this head are on their way
      return { header: { ...header, ...scores }, arrays, options: { pair: null, relative: false } };
    }
    const weights = weightsOf(kind, layer, head);
    if (!weights) return null;
    const { titles, file_names, notes } = header.sites[kind.sites[layer]];
    const order = head ?? kind.heads;
    const { queries, keys, name } = kind;
    const { words } = header;
    const agreed = agreement(kind.decided, weights, keys.texts.length, [words.agree, words.none, words.unknown]);
    const said = [header.axes[name].notes, notes[order], kind.decided?.length ? words.decided : "", agreed];
    const axis = { ...header.axes[name], notes: said.filter(Boolean).join(" ") };
    return {
      header: {
        ...header, kind, layer, queries, keys, axis,
        title: titles[order], file_name: file_names[order], unit: words.unit,
      },
      arrays: { weights },
      options: { pair, relative },
    };
  },
  acted(name, value, choice, _, { scores }) {
    if (scores) return null; // pieces of words, which no address marks
    if (name === "relative") return { relative: choice.relative ? null : "true" };
    return toggled(choice, value[0], value[1]);
  },
};

export default component("heatmap", (frame) => {
  /** @type {Partial<View>} */
  const start = { current: [0, 0], pointed: null, pair: null, relative: false, told: null, asked: [] };
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), start));
  listen(view);
  return {
    receive: ({ header, arrays }) => receive(view, header, arrays),
    adopt: (options) => {
      const { pair = null } = options;
      if (pair && !same(pair, view.pair ?? [])) view.current = pair;
      Object.assign(view, { pair, relative: options.relative });
      if (options.window) adopt(view, options.window);
    },
    draw: () => draw(view),
    close: () => clearTimeout(view.rests),
  };
}, local);

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const [nearer, farther, whole, relative, ...buttons] = Array.from({ length: 7 }, () => button("", () => {}));
  const zooms = [nearer, farther, whole];
  relative.setAttribute("role", "switch");
  const title = element("div", "title");
  const bar = element("div", "bar");
  bar.append(title, toolbar(buttons[0], ...zooms, relative, ...buttons));
  const canvas = element("canvas", "", null, { tabindex: "0", role: "grid" });
  const scroller = element("div", "scroller");
  scroller.append(canvas);
  const block = element("div", "block");
  const reading = element("div", "reading", "", { "aria-hidden": "true" });
  const notes = element("p", "notes");
  const empty = element("p", "empty");
  root.append(bar, scroller, block, reading, notes, empty);
  return { zooms, relativeSwitch: relative, buttons, title, bar, canvas, scroller, block, reading, notes, empty };
}

/**
 * Take another matrix; where the keyboard stands is kept while there is such a cell, and so is the window.
 * @param {View} view
 * @param {Header} header
 * @param {Record<string, any>} arrays
 */
function receive(view, header, arrays) {
  const { long, queries, keys } = header;
  const shape = /** @type {[number, number]} */ (long ? header.shape : [queries.texts.length, keys.texts.length]);
  const isNew = !view.header || !same(view.header.shape, shape) || header.long !== view.header.long;
  view.header = { ...header, shape, centred: header.centred ?? false };
  const [rows, columns] = shape;
  const arraysOf = (/** @type {number} */ order) => (
    { codes: arrays[`codes_${order}`], nan: arrays[`nan_${order}`], values: arrays[`values_${order}`] }
  );
  view.layers = header.long
    ? header.layers.map((layer, order) => ({ ...layer, ...arraysOf(order) }))
    : [wholeOf(arrays.weights, rows, columns)];
  if (isNew || !header.long) view.window = all(view);
  if (isNew) Object.assign(view, { told: null, asked: [], pair: null });
  if (view.current[0] >= rows || view.current[1] >= columns) Object.assign(view, { current: [0, 0], pointed: null });
}

/** @param {View} view */
function draw(view) {
  const { header, canvas, root } = view;
  const { words } = header;
  const nothing = header.shape.includes(0);
  for (const one of [view.bar, view.scroller, view.block, view.reading, view.notes]) one.hidden = nothing;
  view.empty.hidden = !nothing;
  say(view.empty, words.empty);
  if (nothing) return;
  view.theme = themeOf(root);
  view.measures = measuresOf(view, root.clientWidth);
  const { left, top, cell, tall, across, down, width, height } = view.measures;
  const context = resized(canvas, width, height, screenRatio());
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  canvas.dataset.cells = [left, top, cell, tall].join(" "); // for whoever measures
  root.dataset.map = JSON.stringify([left, top, across, down]);
  const cursor = isWalked(canvas) ? around(view, view.current, "#ffffff", "#000000") : [];
  paintScene(context, [...sceneOf(view, context.getTransform().a), ...cursor], view.theme.font);
  say(view.title, header.title);
  say(view.notes, header.axis.notes);
  const zooms = [words.nearer, words.farther, words.whole, words.relative];
  const said = [...zooms, words.save_png, words.save_svg, header.save_csv];
  [...view.zooms, view.relativeSwitch, ...view.buttons].forEach((one, order) => say(one, said[order]));
  view.relativeSwitch.setAttribute("aria-checked", String(view.relative));
  view.relativeSwitch.hidden = header.centred || Boolean(header.fixed);
  view.buttons[1].hidden = Boolean(header.long);
  view.buttons[2].hidden = !header.save_csv;
  drawWindow(view);
  describe(view);
}

/**
 * What is seen of a long map, and the buttons that move it.
 * @param {View} view
 */
function drawWindow(view) {
  const { header, canvas, zooms, root } = view;
  const isWhole = same(view.window, all(view));
  for (const one of zooms) one.hidden = !header.long;
  for (const one of zooms.slice(1)) one.toggleAttribute("disabled", isWhole);
  canvas.style.touchAction = isWhole ? "auto" : "none";
  view.block.hidden = !header.long;
  if (!header.long) return;
  say(view.block, seen(view));
  const part = view.layers[view.layers.length - 1];
  const block = `${part.tall}x${part.wide}`;
  Object.assign(root.dataset, { window: JSON.stringify(view.window.map(Math.round)), block });
}

/**
 * Say the cell under the pointer, or where the keyboard stands.
 * @param {View} view
 */
function describe(view) {
  const { header, canvas, current, pointed, reading, pair } = view;
  const { words, shape: [queries, keys] } = header;
  const name = fill(words.name, { title: header.title, queries: counted(queries), keys: counted(keys) });
  canvas.setAttribute("aria-label", name);
  canvas.setAttribute("aria-rowcount", String(queries));
  canvas.setAttribute("aria-colcount", String(keys));
  const isMarked = pair !== null && same(pair, current);
  const attributes = { "aria-colindex": current[1] + 1, "aria-selected": String(isMarked) };
  activate(canvas, "gridcell", told(view, current), attributes, ["row", { "aria-rowindex": current[0] + 1 }]);
  const here = pointed ?? (isWalked(canvas) ? current : header.long ? null : pair);
  const short = view.hears("picked") && !header.scores ? words.hint : words.hint_read;
  say(reading, here ? told(view, here) : header.long ? words.hint_long : short);
}

/**
 * Whether the keyboard walks the cells: a click beside them reaches the canvas too, and chooses nothing.
 * @param {HTMLCanvasElement} canvas
 */
function isWalked(canvas) {
  return focusedBeside(canvas) === canvas && canvas.matches(":focus-visible");
}

/**
 * A cell in words.
 * @param {Pick<View, "header" | "layers" | "pair">} view
 * @param {[number, number]} cell
 */
export function told(view, cell) {
  const { header, layers, pair } = view;
  if (header.long) return spoken(view, cell);
  const { words, queries, keys } = header;
  const [query, key] = cell;
  const weight = layers[0].values?.[query * keys.texts.length + key] ?? NaN;
  const value = weight === MASKED ? words.masked : written(weight, 3, words.nan);
  const [row, column] = [queries.labels[query], keys.labels[key]];
  const { queries: query_axis, keys: key_axis } = header.axis;
  const said = header.table
    ? fill(words.cell, { query_axis, query: row, key_axis, key: column, weight: value })
    : fill(words.told, { query: row, key: column, value });
  return pair && same(pair, cell) ? `${said} ${words.marks}` : said;
}

/** @param {View} view */
function listen(view) {
  const { canvas, relativeSwitch, buttons } = view;
  const at = (/** @type {MouseEvent} */ event) => cellAt(view, event);
  walk(canvas, {
    at,
    size: () => view.header.shape,
    current: () => view.current,
    point: (cell) => {
      view.pointed = cell;
      canvas.classList.toggle("pointing", Boolean(cell) && view.hears("picked"));
      if (view.measures) describe(view);
    },
    go: (cell) => {
      Object.assign(view, { current: cell, pointed: null });
      view.draw();
    },
    pick: (cell) => {
      if (view.header.long) return;
      view.current = cell;
      view.send("picked", cell);
      view.draw();
    },
  });
  canvas.onfocus = canvas.onblur = view.draw;
  listenForZoom(view, at);
  relativeSwitch.onclick = () => {
    if (view.hears("relative")) return view.send("relative", null);
    view.relative = !view.relative;
    view.draw();
  };
  buttons[0].onclick = () => saveHeatmap(view, "png");
  buttons[1].onclick = () => saveHeatmap(view, "svg");
  buttons[2].onclick = () => saveNumbers(view);
}

/**
 * The cell under the pointer.
 * @param {View} view
 * @param {MouseEvent} event
 * @returns {[number, number] | null}
 */
function cellAt({ canvas, measures, window: [top, bottom, left, right] }, event) {
  if (!measures) return null;
  const box = canvas.getBoundingClientRect();
  const row = top + ((event.clientY - box.top) / enlarged() - measures.top) / measures.tall;
  const column = left + ((event.clientX - box.left) / enlarged() - measures.left) / measures.cell;
  return row >= top && row < bottom && column >= left && column < right ? [Math.floor(row), Math.floor(column)] : null;
}

/**
 * Let the user keep the numbers that are shown, as a table with the names of queries and keys; nothing where masked.
 * @param {View} view
 */
function saveNumbers({ header, layers }) {
  const { queries, keys } = header;
  const cell = (/** @type {string} */ text) => `"${text.replaceAll('"', '""')}"`;
  const rows = queries.labels.map((label, row) => {
    const here = rowOf(layers[0].values ?? new Float32Array(), keys.labels.length, row);
    const numbers = Array.from(here, (weight) => (weight === MASKED ? "" : String(Number(weight.toPrecision(9)))));
    return [cell(label), ...numbers];
  });
  const lines = [["", ...keys.labels.map(cell)], ...rows].map((one) => one.join(","));
  save(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }), `${header.file_name}.csv`);
}

/**
 * Let the user keep what is shown.
 * @param {View} view
 * @param {"png" | "svg"} kind
 */
function saveHeatmap(view, kind) {
  const { header, theme } = view;
  const measures = measuresOf(view, header.long ? Math.max(LEAST, view.measures.width) : 800);
  const width = Math.max(measures.width, LEAST);
  const about = { title: header.title, lines: [...header.axis.facts, ...(header.long ? [seen(view)] : [])] };
  const map = { items: sceneOf({ ...view, measures }, kind === "svg" ? 0 : 2), height: measures.height };
  savePicture(header.file_name, theme, width, about, [map], { notes: [header.axis.notes], kind });
}
