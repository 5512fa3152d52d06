// From weight codes to pixels: one small picture a head. Code 0..254 is a place on the colour scale, 255 is masked.

import { NAN, rgb, scale } from "./colours.js";
import { bit } from "./blob.js";

const MASKED = 255;
const LARGEST_CODE = 254;

/** Pixel values (one u32 each) for every code, and for the two marks that are no weight. */
export function palette(theme) {
  const pixel = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  const codes = new Uint32Array(256);
  for (let code = 0; code <= LARGEST_CODE; code++) codes[code] = pixel(scale(code / LARGEST_CODE));
  codes[MASKED] = pixel(theme.masked);
  return { codes, hatch: pixel(theme.hatch), nan: pixel(rgb(NAN)) };
}

/** How many pixels a cell's side takes, so that the longer side has about `size` pixels and cells stay whole. */
export function cellSide(queries, keys, size) {
  return Math.max(1, Math.floor(size / Math.max(queries, keys)));
}

/** Draw head number `head` (counted over all layers) on `canvas`: queries down, keys across, masked cells hatched. */
export function paint(canvas, picture, head, colours, size) {
  const [, , queries, keys] = picture.header.shape;
  const side = cellSide(queries, keys, size);
  const width = keys * side;
  canvas.width = width;
  canvas.height = queries * side;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const first = head * queries * keys;
  for (let y = 0; y < canvas.height; y++) {
    const row = first + Math.floor(y / side) * keys;
    for (let x = 0; x < width; x++) {
      const at = row + Math.floor(x / side);
      const code = picture.arrays.codes[at];
      pixels[y * width + x] = code === MASKED && ((x + y) & 3) === 0 ? colours.hatch : colours.codes[code];
    }
  }
  if (picture.arrays.nan) markNan(pixels, picture.arrays.nan, first, queries, keys, side, colours.nan);
  context.putImageData(image, 0, 0);
}

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

/** The colour scale itself, one pixel a code. */
export function paintScale(canvas, colours) {
  canvas.width = LARGEST_CODE + 1;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, 1);
  new Uint32Array(image.data.buffer).set(colours.codes.subarray(0, canvas.width));
  context.putImageData(image, 0, 0);
}

/** A patch of masked (or, with `nan`, of not-a-number) cells for the legend. */
export function paintSwatch(canvas, colours, nan = false) {
  canvas.width = canvas.height = 14;
  const context = canvas.getContext("2d");
  const image = context.createImageData(14, 14);
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < pixels.length; at++) {
    const stripe = ((Math.floor(at / 14) + at) & 3) === 0;
    pixels[at] = nan ? colours.nan : stripe ? colours.hatch : colours.codes[MASKED];
  }
  context.putImageData(image, 0, 0);
}

/** Where the colour bar has ticks, as [weight, position between 0 and 1]. */
export function ticks(gamma) {
  const weights = gamma < 0.75 ? [0, 0.1, 0.25, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  return weights.map((weight) => [weight, weight ** gamma]);
}

/** What the scale is, in words. */
export function scaleName(gamma) {
  if (gamma === 1) return "linear";
  return gamma === 0.5 ? "square-root" : `weight^${gamma}`;
}

/** The marks that are no weights and occur in these thumbnails, as [is it the mark of NaN, its name]. */
export function marks({ arrays }) {
  const masked = arrays.codes.includes(MASKED) ? [[false, "masked"]] : [];
  return arrays.nan ? [...masked, [true, "NaN"]] : masked;
}
