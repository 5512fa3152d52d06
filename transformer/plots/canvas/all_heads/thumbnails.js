// From weight codes to pixels: one small picture a head. Code 0..254 is a place on the colour scale, 255 is masked.

import { bit } from "../shared/blob.js";
import { NAN, rgb, scale } from "../shared/colours.js";
import { pen } from "../shared/page.js";

const MASKED = 255;
const LARGEST_CODE = 254;

/** The colour bar's ticks. */
export const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** @typedef {{ codes: Uint32Array, hatch: number, nan: number }} Palette */

/** @typedef {[layers: number, heads: number, queries: number, keys: number]} Shape */

/**
 * What the grid shows: codes of all cells, and where there is NaN.
 * @typedef {{ codes: Uint8Array, nan?: Uint8Array }} Thumbnails
 */

/**
 * Pixel values (one u32 each) for every code, and for the two marks that are no weight.
 * @param {import("../shared/colours.js").Theme} theme
 * @returns {Palette}
 */
export function palette(theme) {
  const pixel = (/** @type {number[]} */ [red, green, blue]) =>
    ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  const codes = new Uint32Array(256);
  for (let code = 0; code <= LARGEST_CODE; code++) codes[code] = pixel(scale(code / LARGEST_CODE));
  codes[MASKED] = pixel(theme.masked);
  return { codes, hatch: pixel(theme.hatch), nan: pixel(rgb(NAN)) };
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
 * @param {Thumbnails} thumbnails
 * @param {Shape} shape
 * @param {number} head
 * @param {Palette} colours
 * @param {number} size
 */
export function paint(canvas, thumbnails, [, , queries, keys], head, colours, size) {
  const side = cellSide(queries, keys, size);
  const width = keys * side;
  canvas.width = width;
  canvas.height = queries * side;
  const context = pen(canvas);
  const image = context.createImageData(width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const first = head * queries * keys;
  for (let y = 0; y < canvas.height; y++) {
    const row = first + Math.floor(y / side) * keys;
    for (let x = 0; x < width; x++) {
      const code = thumbnails.codes[row + Math.floor(x / side)];
      pixels[y * width + x] = code === MASKED && ((x + y) & 3) === 0 ? colours.hatch : colours.codes[code];
    }
  }
  if (thumbnails.nan) markNan(pixels, thumbnails.nan, first, queries, keys, side, colours.nan);
  context.putImageData(image, 0, 0);
}

/**
 * @param {Uint32Array} pixels
 * @param {Uint8Array} nan
 * @param {number} first
 * @param {number} queries
 * @param {number} keys
 * @param {number} side
 * @param {number} colour
 */
function markNan(pixels, nan, first, queries, keys, side, colour) {
  const width = keys * side;
  for (let query = 0; query < queries; query++) {
    for (let key = 0; key < keys; key++) {
      if (!bit(nan, first + query * keys + key)) continue;
      for (let y = query * side; y < (query + 1) * side; y++) {
        pixels.fill(colour, y * width + key * side, y * width + (key + 1) * side);
      }
    }
  }
}

/**
 * The colour scale itself, one pixel a code.
 * @param {HTMLCanvasElement} canvas
 * @param {Palette} colours
 */
export function paintScale(canvas, colours) {
  canvas.width = LARGEST_CODE + 1;
  canvas.height = 1;
  const context = pen(canvas);
  const image = context.createImageData(canvas.width, 1);
  new Uint32Array(image.data.buffer).set(colours.codes.subarray(0, canvas.width));
  context.putImageData(image, 0, 0);
}

/**
 * A patch of masked (or, with `nan`, of not-a-number) cells for the legend.
 * @param {HTMLCanvasElement} canvas
 * @param {Palette} colours
 * @param {boolean} nan
 */
export function paintSwatch(canvas, colours, nan) {
  canvas.width = canvas.height = 14;
  const context = pen(canvas);
  const image = context.createImageData(14, 14);
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < pixels.length; at++) {
    const stripe = ((Math.floor(at / 14) + at) & 3) === 0;
    pixels[at] = nan ? colours.nan : stripe ? colours.hatch : colours.codes[MASKED];
  }
  context.putImageData(image, 0, 0);
}

/**
 * The marks that are no weights and occur in these thumbnails, as [is it the mark of NaN, its name].
 * @param {Thumbnails} thumbnails
 * @param {{ masked: string, nan: string }} words
 * @returns {[boolean, string][]}
 */
export function marks(thumbnails, words) {
  /** @type {[boolean, string][]} */
  const found = [];
  if (thumbnails.codes.includes(MASKED)) found.push([false, words.masked]);
  if (thumbnails.nan) found.push([true, words.nan]);
  return found;
}
