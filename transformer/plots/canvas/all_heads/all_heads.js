// Every head of every layer as a thumbnail: look at all, point at one to enlarge it, pick one to open it.

import { valuesOf } from "../shared/cells.js";
import { themeOf } from "../shared/colours.js";
import { component } from "../shared/component.js";
import { moved } from "../shared/grid.js";
import { button, element, focusedBeside } from "../shared/page.js";
import { showLegend } from "../shared/saved.js";
import { fill, written } from "../shared/words.js";
import { gridPng } from "./grid_png.js";
import { local } from "./local.js";
import { showPreview } from "./preview.js";
import { aspect, legendFor, paint, palette } from "./thumbnails.js";

const THUMBNAIL = 96; // pixels along a thumbnail's longer side, or one a cell where there are more cells
const WIDEST = 104; // CSS pixels along a thumbnail's longer side, at most

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {import("./thumbnails.js").Shape} shape
 * @property {string[]} rows the layers' names
 * @property {string[]} columns the heads' names
 * @property {string} query_axis
 * @property {string} key_axis
 * @property {string} file_name
 * @property {string[][]} [roles] what each head does; empty where that is not known
 * @property {import("../shared/saved.js").About} about
 * @property {Record<"save_png" | "name" | "empty" | "layer" | "scale" | "masked" | "nan" | "axes" | "off" | "marked", string>} words
 */

/**
 * @typedef {import("../shared/component.js").Frame & {
 *   header: Header,
 *   weights: Float32Array,
 *   theme: import("../shared/colours.js").Theme,
 *   look: import("./thumbnails.js").Look,
 *   selected: [number, number] | null,
 *   off: [number, number, string][],
 *   pair: ReturnType<typeof import("./local.js").pairIn>,
 *   current: [number, number],
 *   shown: [number, number] | null,
 *   built: string,
 *   cells: HTMLElement[][],
 *   parts: ReturnType<typeof build> | null,
 * }} View
 * `current` is the cell that takes part in the page's tab order, `shown` the one that is enlarged.
 */

export default component("all-heads", (frame) => {
  /** @type {Partial<View>} */
  const start = { selected: null, off: [], pair: null, current: [0, 0], shown: null, built: "", cells: [], parts: null };
  const view = /** @type {View} */ (Object.assign(frame, start));
  return {
    receive: ({ header, arrays }) => Object.assign(view, { header, weights: arrays.weights ?? valuesOf(arrays.codes, arrays.nan) }),
    // Where the server begins to draw what the browser drew, what it said of that may come first: it chose nothing.
    adopt: (options) => Object.assign(view, { selected: options.selected ?? null, off: options.off ?? [], pair: options.pair ?? null }),
    draw: () => draw(view),
    resize: () => fit(view),
  };
}, local);

/** @param {View} view */
function draw(view) {
  const { header, weights } = view;
  const [layers, heads] = header.shape;
  view.theme = themeOf(view.root);
  view.look = palette(view.theme);
  const built = header.shape.includes(0) ? "" : `${layers},${heads}`;
  if (!built) {
    view.root.replaceChildren(element("p", "empty", header.words.empty));
    view.cells = [];
    view.parts = null;
  } else if (built !== view.built) view.parts = build(view);
  view.built = built;
  if (!view.parts) return;
  describe(view, view.parts);
  view.parts.grid.style.setProperty("--shape", String(aspect(header.shape)));
  view.parts.grid.style.setProperty("--widest", `${Math.max(Math.min(aspect(header.shape), 1) * WIDEST, 56)}px`);
  view.cells.flat().forEach((made, head) => {
    paint(canvasOf(made), weights, header.shape, head, view.look, THUMBNAIL);
  });
  fit(view);
  markSelected(view);
  if (view.shown) showPreview(view, view.parts.preview, ...view.shown);
}

/**
 * @param {HTMLElement} cell
 * @returns {HTMLCanvasElement}
 */
function canvasOf(cell) {
  return /** @type {HTMLCanvasElement} */ (cell.firstChild);
}

/**
 * Thumbnails larger than their pixels keep hard edges; smaller ones are averaged, so that no line falls out. The legend
 * takes as many rows as it needs.
 * @param {View} view
 */
function fit(view) {
  const { root, cells, parts, theme } = view;
  if (!parts || !cells.length) return;
  showLegend(parts.legend, legendFor(view), root.clientWidth, theme);
  const canvas = canvasOf(cells[0][0]);
  root.classList.toggle("shrunk", canvas.clientWidth * (window.devicePixelRatio || 1) < canvas.width);
}

/**
 * Make the elements for this many layers and heads; texts and pixels come later, on every draw.
 * @param {View} view
 */
function build(view) {
  const [layers, heads] = view.header.shape;
  const legend = element("div", "legend");
  const save = button("", () => gridPng(view));
  const bar = element("div", "bar");
  bar.append(save);
  const grid = element("div", "grid", null, { role: "grid" });
  grid.style.setProperty("--heads", String(heads));
  const top = element("div", "row", null, { role: "row" });
  const columns = Array.from({ length: heads }, () => element("div", "column", "", { role: "columnheader" }));
  const corner = element("div", "corner", "", { role: "columnheader" });
  top.append(corner, ...columns);
  grid.append(top);
  const rows = Array.from({ length: layers }, () => element("div", "side", "", { role: "rowheader" }));
  view.cells = rows.map((side, layer) => {
    const row = element("div", "row", null, { role: "row" });
    const cells = columns.map((_, head) => makeCell(view, layer, head));
    row.append(side, ...cells);
    grid.append(row);
    return cells;
  });
  const preview = element("div", "preview", null, { "aria-hidden": "true" });
  preview.hidden = true;
  const scroller = element("div", "scroller");
  scroller.append(grid);
  view.root.replaceChildren(scroller, legend, bar, preview);
  view.current = [0, 0];
  view.shown = null;
  return { save, grid, corner, columns, rows, legend, preview };
}

/**
 * @param {View} view
 * @param {number} layer
 * @param {number} head
 */
function makeCell(view, layer, head) {
  const made = element("div", "cell", null, { role: "gridcell", tabindex: "-1" });
  made.append(element("canvas"));
  const pick = () => view.send("picked", { layer, head });
  const show = () => {
    view.shown = [layer, head];
    if (view.parts) showPreview(view, view.parts.preview, layer, head);
  };
  made.onclick = pick;
  made.onpointerenter = (event) => event.pointerType !== "touch" && show();
  made.onpointerleave = () => hidePreview(view);
  made.onblur = () => hidePreview(view);
  made.onfocus = () => {
    view.current = [layer, head];
    markCurrent(view);
    if (made.matches(":focus-visible")) show();
  };
  made.onkeydown = (event) => {
    const target = moved(event, [layer, head], view.header.shape[0], view.header.shape[1]);
    if (event.key === "Enter" || event.key === " ") pick();
    else if (event.key === "Escape") hidePreview(view);
    else if (target) view.cells[target[0]][target[1]].focus();
    else return;
    event.preventDefault();
  };
  return made;
}

/**
 * Write names.
 * @param {View} view
 * @param {NonNullable<View["parts"]>} parts
 */
function describe({ header }, { save, grid, corner, columns, rows }) {
  const { words } = header;
  save.textContent = words.save_png;
  grid.setAttribute("aria-label", words.name);
  corner.setAttribute("aria-label", words.layer);
  columns.forEach((column, head) => (column.textContent = header.columns[head]));
  rows.forEach((row, layer) => (row.textContent = header.rows[layer]));
}

/**
 * A head's layer and number, and what it does.
 * @param {Header} header
 * @param {number} layer
 * @param {number} head
 */
function nameOf(header, layer, head) {
  return [header.rows[layer], header.columns[head], header.roles?.[layer][head]].filter(Boolean).join(", ");
}

/** @param {View} view */
function markSelected(view) {
  const { header, cells, parts, selected, off } = view;
  cells.forEach((row, layer) =>
    row.forEach((one, head) => {
      const way = off.find(([offLayer, offHead]) => offLayer === layer && offHead === head)?.[2];
      const name = nameOf(header, layer, head);
      one.setAttribute("aria-selected", String(selected?.[0] === layer && selected[1] === head));
      const weight = drawPair(view, one, layer, head);
      const marked = weight ? [fill(header.words.marked, { weight })] : [];
      one.setAttribute("aria-label", [name, ...(way === undefined ? [] : [fill(header.words.off, { way })]), ...marked].join(", "));
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

/** @param {View} view */
function hidePreview(view) {
  view.shown = null;
  if (view.parts) view.parts.preview.hidden = true;
}
