// One small picture a head.

import { LARGEST_CODE, lookOf, marked, marksOf, paintOn, wholeOf } from "../shared/cells.js";
import { TICKS } from "../shared/saved.js";
import { fill } from "../shared/words.js";

/** @typedef {import("../shared/cells.js").Look} Look */

/** @typedef {[layers: number, heads: number, queries: number, keys: number]} Shape */

/**
 * How weights look in this theme: alike, whether Python sent codes or the record is here.
 * @param {import("../shared/colours.js").Theme} theme
 */
export function palette(theme) {
  return lookOf(1, false, theme, LARGEST_CODE);
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
 * @param {Look} look
 * @param {number} size
 */
export function paint(canvas, weights, [, , queries, keys], head, look, size) {
  const side = cellSide(queries, keys, size);
  const layer = wholeOf(weights.subarray(head * queries * keys, (head + 1) * queries * keys), queries, keys);
  paintOn(canvas, keys * side, queries * side, [0, queries, 0, keys], [layer], 1, look);
}

/**
 * What the colours of these thumbnails mean.
 * @param {Pick<import("./all_heads.js").View, "header" | "weights" | "theme">} view
 * @returns {import("../shared/saved.js").Legend}
 */
export function legendFor({ header, weights, theme }) {
  const { words, query_axis: queries, key_axis: keys } = header;
  const marks = marksOf(marked([wholeOf(weights, 1, weights.length)]), words, theme);
  return { name: words.scale, ticks: TICKS, marks, note: fill(words.axes, { queries, keys }) };
}
