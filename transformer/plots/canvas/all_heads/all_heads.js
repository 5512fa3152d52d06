// Every head of every layer as a thumbnail: look at all, pick one to open it.

import { LARGEST_CODE, lookOf, marked, marksOf, paintOn, valuesOf, wholeOf } from "../shared/cells.js";
import { themeOf } from "../shared/colours.js";
import { component } from "../shared/component.js";
import { walk } from "../shared/grid.js";
import { layerOf, numberOf } from "../shared/local.js";
import { button, element, focusedBeside } from "../shared/page.js";
import { savePicture, showLegend, TICKS } from "../shared/saved.js";
import { fill, written } from "../shared/words.js";

const THUMBNAIL = 96; // pixels along a thumbnail's longer side, or one a cell where there are more cells
const WIDEST = 104; // CSS pixels along a thumbnail's longer side, at most
const SAVED = { longest: 110, side: 84, top: 28, gap: 6, least: 460 }; // of a picture: thumbnails, names beside them

/** @typedef {[layers: number, heads: number, queries: number, keys: number]} Shape */

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {Shape} shape
 * @property {string[]} rows the layers' names
 * @property {string[]} columns the heads' names
 * @property {string} query_axis
 * @property {string} key_axis
 * @property {string} file_name
 * @property {string[][]} [roles] what each head does; empty where that is not known
 * @property {import("../shared/saved.js").About} about
 * @property {Record<"save_png" | "name" | "empty" | "layer" | "scale" | "masked" | "nan" | "axes" | "off" |
 *   "marked", string>} words
 */

/** @typedef {{ at: number[], weights: number[][] }} Pair Where it lies in each thumbnail, and weights by row, head. */

/** @typedef {import("../shared/local.js").Kind} Kind */
/** @typedef {[kind: number, layer: number]} Place What a row of a grid of all kinds shows. */

/**
 * @typedef {import("../shared/component.js").Frame & {
 *   header: Header,
 *   weights: Float32Array,
 *   theme: import("../shared/colours.js").Theme,
 *   look: import("../shared/cells.js").Look,
 *   selected: [number, number] | null,
 *   off: [number, number, string][],
 *   pair: Pair | null,
 *   current: [number, number],
 *   built: string,
 *   cells: HTMLElement[][],
 *   parts: ReturnType<typeof build> | null,
 * }} View
 * `current` is the cell that takes part in the page's tab order.
 */

/**
 * The grid of the page's record: every head of the kind that is looked at, or of all kinds, which has its own numbers.
 * @type {import("../shared/local.js").Local}
 */
export const local = {
  seen(header, record, { kind, layer, head, pair }, _, arrays) {
    if (header.places) {
      const layerOfRow = (/** @type {Place} */ [number, own]) => (record.kinds[number] === kind ? own : null);
      const layers = header.places.map(layerOfRow);
      const row = layers.indexOf(layer);
      const selected = head === null || row < 0 ? null : [row, head];
      return { header, arrays, options: { selected, pair: pairIn(kind, pair, layers) } };
    }
    const { sites, heads, queries, keys, name } = kind;
    if (!header.grids[name]) return null; // another kind's thumbnails are on their way
    const { size } = header.grids[name];
    return {
      header: {
        ...header,
        ...header.grids[name],
        shape: [sites.length, heads, ...(size ?? [queries.texts.length, keys.texts.length])],
        rows: sites.map((_site, order) => numberOf(kind, order)).map((number) => number && `L${number}`),
        columns: Array.from({ length: heads }, (_none, order) => `H${order}`),
      },
      arrays: size ? arrays : { weights: kind.weights },
      options: {
        selected: head === null ? null : [layer, head],
        pair: pairIn(kind, pair, sites.map((_site, order) => order)),
      },
    };
  },
  acted(_, { layer, head }, _choice, { kinds }, header) {
    const [kind, own] = header.places?.[layer] ?? [0, layer];
    return { layer: header.places ? (kinds[kind].layers?.[own] ?? null) : String(layer), head: String(head) };
  },
};

/**
 * A marked pair in the thumbnails: where, as shares of their sides; weights: below 0 where masked, none where not here.
 * @param {Kind} kind
 * @param {[number, number] | null} pair
 * @param {(number | null)[]} layers the layer of each row, null for one of another kind
 * @returns {Pair | null}
 */
export function pairIn(kind, pair, layers) {
  if (!pair) return null;
  const [query, key] = pair;
  const [rows, columns] = [kind.queries.texts.length, kind.keys.texts.length];
  const weights = layers.map((layer) => {
    const found = layer === null ? null : layerOf(kind, layer);
    const weightOf = (/** @type {number} */ head) => found?.[(head * rows + query) * columns + key] ?? NaN;
    return Array.from({ length: found ? kind.heads : 0 }, (_, head) => weightOf(head));
  });
  return { at: [(query + 0.5) / rows, (key + 0.5) / columns], weights };
}

export default component("all-heads", (frame) => {
  /** @type {Partial<View>} */
  const start = { selected: null, off: [], pair: null, current: [0, 0], built: "", cells: [], parts: null };
  const view = /** @type {View} */ (Object.assign(frame, start));
  return {
    receive: ({ header, arrays }) =>
      Object.assign(view, { header, weights: arrays.weights ?? valuesOf(arrays.codes, arrays.nan) }),
    // Where the server begins to draw what the browser drew, what it said of that may come first: it chose nothing.
    adopt: ({ selected, off, pair }) =>
      Object.assign(view, { selected: selected ?? null, off: off ?? [], pair: pair ?? null }),
    draw: () => draw(view),
  };
}, local);

/** @param {View} view */
function draw(view) {
  const { header, weights } = view;
  view.theme = themeOf(view.root);
  view.look = lookOf(1, false, view.theme, LARGEST_CODE); // alike, whether Python sent codes or the record is here
  const built = header.shape.includes(0) ? "" : JSON.stringify([header.rows, header.columns, header.words]);
  if (!built) {
    view.root.replaceChildren(element("p", "empty", header.words.empty));
    view.cells = [];
    view.parts = null;
  } else if (built !== view.built) view.parts = build(view);
  view.built = built;
  if (!view.parts) return;
  view.parts.grid.style.setProperty("--shape", String(aspect(header.shape)));
  view.parts.grid.style.setProperty("--widest", `${Math.max(Math.min(aspect(header.shape), 1) * WIDEST, 56)}px`);
  view.cells.flat().forEach((made, head) => {
    paint(canvasOf(made), weights, header.shape, head, view.look, THUMBNAIL);
  });
  showLegend(view.parts.legend, legendFor(view), view.root.clientWidth, view.theme);
  // Thumbnails larger than their pixels keep hard edges; smaller ones are averaged, so that no line falls out.
  const canvas = canvasOf(view.cells[0][0]);
  view.root.classList.toggle("shrunk", canvas.clientWidth * (window.devicePixelRatio || 1) < canvas.width);
  markSelected(view);
}

/**
 * @param {HTMLElement} cell
 * @returns {HTMLCanvasElement}
 */
function canvasOf(cell) {
  return /** @type {HTMLCanvasElement} */ (cell.firstChild);
}

/**
 * Make the elements of these layers and heads; pixels come later, on every draw.
 * @param {View} view
 */
function build(view) {
  const { words, rows, columns } = view.header;
  const [legend, bar, scroller] = ["legend", "bar", "scroller"].map((name) => element("div", name));
  bar.append(button(words.save_png, () => gridPng(view)));
  const grid = element("div", "grid", null, { role: "grid", "aria-label": words.name });
  grid.style.setProperty("--heads", String(columns.length));
  const top = element("div", "row", null, { role: "row" });
  top.append(element("div", "corner", "", { role: "columnheader", "aria-label": words.layer }));
  top.append(...columns.map((name) => element("div", "column", name, { role: "columnheader" })));
  grid.append(top);
  view.cells = rows.map((name) => {
    const row = element("div", "row", null, { role: "row" });
    const cells = columns.map(() => {
      const made = element("div", "cell", null, { role: "gridcell", tabindex: "-1" });
      made.append(element("canvas"));
      return made;
    });
    row.append(element("div", "side", name, { role: "rowheader" }), ...cells);
    grid.append(row);
    return cells;
  });
  const at = (/** @type {Event} */ { target }) => {
    const cell = /** @type {HTMLElement} */ (target).closest(".cell");
    const layer = view.cells.findIndex((row) => row.some((one) => one === cell));
    if (layer < 0) return null;
    return /** @type {[number, number]} */ ([layer, view.cells[layer].findIndex((one) => one === cell)]);
  };
  walk(grid, {
    at,
    size: () => [rows.length, columns.length],
    current: () => view.current,
    point: () => {},
    go: ([layer, head]) => view.cells[layer][head].focus(),
    pick: ([layer, head]) => view.send("picked", { layer, head }),
  });
  grid.addEventListener("focusin", (event) => {
    view.current = at(event) ?? view.current;
    markCurrent(view);
  });
  scroller.append(grid);
  view.root.replaceChildren(scroller, legend, bar);
  view.current = [0, 0];
  return { grid, legend };
}

/** @param {View} view */
function markSelected(view) {
  const { header, cells, parts, selected, off } = view;
  cells.forEach((row, layer) =>
    row.forEach((one, head) => {
      const way = off.find(([offLayer, offHead]) => offLayer === layer && offHead === head)?.[2];
      const name = [header.rows[layer], header.columns[head], header.roles?.[layer][head]].filter(Boolean).join(", ");
      one.title = name;
      one.setAttribute("aria-selected", String(selected?.[0] === layer && selected[1] === head));
      const weight = drawPair(view, one, layer, head);
      const told = weight ? [fill(header.words.marked, { weight })] : [];
      const without = way === undefined ? [] : [fill(header.words.off, { way })];
      one.setAttribute("aria-label", [name, ...without, ...told].join(", "));
      one.classList.toggle("off", way !== undefined);
    }),
  );
  const focused = parts?.grid.contains(focusedBeside(view.root));
  if (selected && cells[selected[0]]?.[selected[1]] && !focused) view.current = selected;
  markCurrent(view);
}

/**
 * Tick the marked pair in a thumbnail, with its weight, which is returned; an empty text where no pair is marked.
 * @param {View} view
 * @param {HTMLElement} cell
 * @param {number} layer
 * @param {number} head
 */
function drawPair({ header: { words }, pair }, cell, layer, head) {
  const weight = pair?.weights[layer]?.[head];
  cell.replaceChildren(canvasOf(cell));
  if (!pair || weight === undefined) return "";
  const said = weight < 0 ? words.masked : written(weight, 3, words.nan);
  const tick = element("i", "tick");
  [tick.style.top, tick.style.left] = pair.at.map((share) => `${100 * share}%`);
  cell.append(tick, element("span", "weight", said));
  return said;
}

/**
 * Roving tabindex: one cell takes part in the page's tab order.
 * @param {View} view
 */
function markCurrent({ cells, current: [layer, head], parts }) {
  parts?.grid.querySelector('.cell[tabindex="0"]')?.setAttribute("tabindex", "-1");
  cells[layer][head].setAttribute("tabindex", "0");
}

/**
 * How many pixels a cell's side takes, so that the longer side has about `size` pixels and cells stay whole.
 * @param {number} queries
 * @param {number} keys
 * @param {number} size
 */
export function cellSide(queries, keys, size) {
  return Math.max(1, Math.floor(size / Math.max(queries, keys)));
}

/**
 * How wide a thumbnail is for its height: as its numbers are, but never more than twice as long as it is short.
 * @param {Shape} shape
 */
export function aspect([, , queries, keys]) {
  return Math.min(Math.max(keys / queries, 0.5), 2);
}

/**
 * Draw head number `head` (counted over all layers) on `canvas`: queries down, keys across, masked cells hatched.
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} weights
 * @param {Shape} shape
 * @param {number} head
 * @param {View["look"]} look
 * @param {number} size
 */
export function paint(canvas, weights, [, , queries, keys], head, look, size) {
  const side = cellSide(queries, keys, size);
  const layer = wholeOf(weights.subarray(head * queries * keys, (head + 1) * queries * keys), queries, keys);
  paintOn(canvas, keys * side, queries * side, [0, queries, 0, keys], [layer], 1, look);
}

/**
 * What the colours of these thumbnails mean.
 * @param {Pick<View, "header" | "weights" | "theme">} view
 * @returns {import("../shared/saved.js").Legend}
 */
export function legendFor({ header, weights, theme }) {
  const { words, query_axis: queries, key_axis: keys } = header;
  const marks = marksOf(marked([wholeOf(weights, 1, weights.length)]), words, theme);
  return { name: words.scale, ticks: TICKS, marks, note: fill(words.axes, { queries, keys }) };
}

/**
 * Let the user keep the whole grid.
 * @param {View} view
 */
function gridPng({ header, weights, theme, look, selected }) {
  const { shape } = header;
  const [layers, heads] = shape;
  const width = Math.min(SAVED.longest, SAVED.longest * aspect(shape));
  const height = width / aspect(shape);
  const inner = Math.max(SAVED.side + heads * (width + SAVED.gap), SAVED.least);
  const base = /** @type {const} */ ({ kind: "text", colour: theme.text });
  const left = (/** @type {number} */ head) => SAVED.side + head * (width + SAVED.gap);
  const top = (/** @type {number} */ layer) => SAVED.top + layer * (height + SAVED.gap);
  const above = /** @type {const} */ ({ ...base, y: SAVED.top - 12, room: width, align: "center" });
  const beside = /** @type {const} */ ({ ...base, x: 0, room: SAVED.side - 8, align: "left" });
  /** @type {import("../shared/scene.js").Item[]} */
  const items = [
    ...header.columns.map((text, head) => ({ ...above, text, x: left(head) + width / 2 })),
    ...header.rows.map((text, layer) => ({ ...beside, text, y: top(layer) + height / 2 })),
  ];
  for (let head = 0; head < layers * heads; head++) {
    const image = element("canvas");
    paint(image, weights, shape, head, look, 2 * Math.max(width, height));
    const [x, y] = [left(head % heads), top(Math.floor(head / heads))];
    items.push({ kind: "image", image, x, y, width, height, crisp: true });
  }
  if (selected) {
    const [y, x] = [top(selected[0]) - 2, left(selected[1]) - 2];
    items.push({ kind: "frame", x, y, width: width + 4, height: height + 4, colour: theme.primary, line: 3 });
  }
  const drawn = { items, height: top(layers) + SAVED.gap };
  savePicture(header.file_name, theme, inner, header.about, [drawn], { legend: legendFor({ header, weights, theme }) });
}
