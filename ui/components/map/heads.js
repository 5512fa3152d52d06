// The thumbnails of a sub-layer's heads: one picture of all, where each stands in it, and which row a query is.

import { paint } from "../../../transformer/plots/canvas/all_heads/all_heads.js";
import { lookOf, valuesOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { element, pen } from "../../../transformer/plots/canvas/shared/page.js";

/** @typedef {import("./layout.js").Grid} Grid */

/**
 * All heads of an attention as one picture, in the colours that weights have everywhere; masked cells are left out.
 * @param {Uint8Array} codes
 * @param {[number, number, number]} shape heads, rows, columns
 * @param {Grid} grid
 * @param {import("../../../transformer/plots/canvas/shared/colours.js").Theme} theme
 */
export function headsImage(codes, [heads, rows, columns], grid, theme) {
  const dense = 3;
  const [cells, values] = [element("canvas"), valuesOf(codes)];
  const look = { ...lookOf(1, false, theme), masked: 0, hatch: 0 };
  const [wide, high] = [grid.across * (grid.side + grid.gap) - grid.gap, grid.tall];
  const sheet = element("canvas", "", null, { width: Math.round(wide * dense), height: Math.round(high * dense) });
  const ink = pen(sheet);
  ink.imageSmoothingEnabled = columns > grid.side * dense || rows > grid.each * dense;
  ink.strokeStyle = "rgb(128 128 128 / 0.5)";
  for (let head = 0; head < heads; head++) {
    paint(cells, values, [1, heads, rows, columns], head, look, 1);
    const [x, y] = cornerOf(grid, head);
    const corners = /** @type {const} */ ([x * dense, y * dense, grid.side * dense, grid.each * dense]);
    ink.drawImage(cells, ...corners);
    ink.strokeRect(...corners);
  }
  return sheet.toDataURL();
}

/**
 * Where a head's picture stands within its grid.
 * @param {Grid} grid
 * @param {number} head
 */
export function cornerOf(grid, head) {
  return [(head % grid.across) * (grid.side + grid.gap), Math.floor(head / grid.across) * (grid.each + grid.gap)];
}

/**
 * The head at a place within a grid; null between two of them.
 * @param {Grid} grid
 * @param {number} heads
 * @param {number} x
 * @param {number} y
 */
export function headAt(grid, heads, x, y) {
  const [column, line] = [Math.floor(x / (grid.side + grid.gap)), Math.floor(y / (grid.each + grid.gap))];
  const head = line * grid.across + column;
  const isWithin = x >= 0 && y >= 0 && column < grid.across && line < grid.lines;
  const inside = isWithin && x % (grid.side + grid.gap) <= grid.side;
  return inside && head < heads ? head : null;
}

/**
 * A tick before the row of one query in every head.
 * @param {Grid} grid
 * @param {[number, number, number]} shape
 * @param {number | null} row of the picture
 */
export function rowMarks(grid, [heads, rows], row) {
  if (row === null) return "";
  let path = "";
  for (let head = 0; head < heads; head++) {
    const [x, y] = cornerOf(grid, head);
    path += `M${(grid.x + x - 3.4).toFixed(1)} ${(grid.y + y + ((row + 0.5) * grid.each) / rows).toFixed(1)}h3`;
  }
  return path;
}

/**
 * Which row of the pictures stands for a query; null for all at once, or where there is no such query.
 * @param {{ shape: [number, number, number], queries: number }} heads
 * @param {number} query
 */
export function pictureRow({ shape, queries }, query) {
  if (query < 0 || query >= queries) return null;
  return Math.floor(query / Math.ceil(queries / shape[1]));
}
