// One small picture a head.

import { LARGEST_CODE, lookOf, MASKED, paintOn, wholeOf } from "../shared/cells.js";
import { element } from "../shared/page.js";

/** The colour bar's ticks. */
export const TICKS = [0, 0.25, 0.5, 0.75, 1];

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
 * The marks that are no weights and occur in these thumbnails, with their names.
 * @param {Float32Array} weights
 * @param {{ masked: string, nan: string }} words
 * @param {Look} look
 * @returns {[name: string, patch: HTMLCanvasElement][]}
 */
export function marks(weights, words, look) {
  const named = /** @type {[number, string][]} */ ([[MASKED, words.masked], [NaN, words.nan]]);
  return named.filter(([mark]) => weights.includes(mark)).map(([mark, name]) => {
    const patch = element("canvas");
    paint(patch, Float32Array.of(mark), [1, 1, 1, 1], 0, look, 14);
    return [name, patch];
  });
}
