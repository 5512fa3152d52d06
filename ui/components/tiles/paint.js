// From codes to pixels: the whole map in blocks, and over it the part that was asked for. Every pixel is one block.

import { bit } from "../../../transformer/canvas/shared/blob.js";
import { NAN, rgb, scale } from "../../../transformer/canvas/shared/colours.js";

const MASKED = 255;
const LARGEST_CODE = 254;

/**
 * A rectangle of a map in blocks of `tall` x `wide` cells; `values` are there where every cell is alone and named.
 * @typedef {object} Layer
 * @property {[number, number]} rows
 * @property {[number, number]} columns
 * @property {number} tall
 * @property {number} wide
 * @property {Uint8Array} codes
 * @property {Uint8Array} [nan]
 * @property {Float32Array} [values]
 * @property {string[]} [queries] names of its rows, where they are known
 * @property {string[]} [keys]
 */

/** @typedef {{ codes: Uint32Array, hatch: number, nan: number }} Palette */

/**
 * The weight that a code stands for: codes are square roots of shares of the largest.
 * @param {number} code
 * @param {number} largest
 */
export function weightOf(code, largest) {
  return largest * (code / LARGEST_CODE) ** 2;
}

/**
 * The colour of every code, on a scale that ends at `end`.
 * @param {import("../../../transformer/canvas/shared/colours.js").Theme} theme
 * @param {number} largest
 * @param {number} end
 * @returns {Palette}
 */
export function palette(theme, largest, end) {
  const pixel = (/** @type {number[]} */ [red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  const codes = new Uint32Array(256);
  for (let code = 0; code <= LARGEST_CODE; code++) codes[code] = pixel(scale(end ? weightOf(code, largest) / end : 0));
  codes[MASKED] = pixel(theme.masked);
  return { codes, hatch: pixel(theme.hatch), nan: pixel(rgb(NAN)) };
}

/**
 * Blocks along a side of a layer.
 * @param {[number, number]} span
 * @param {number} length
 */
export function blocks([from, to], length) {
  return Math.ceil((to - from) / length);
}

/**
 * Which block of a layer each of `count` pixels shows that span cells `from` to `to`; -1 where the layer has none.
 * @param {number} count
 * @param {number} from
 * @param {number} to
 * @param {[number, number]} span
 * @param {number} length
 */
export function along(count, from, to, span, length) {
  const found = new Int32Array(count);
  for (let at = 0; at < count; at++) {
    const cell = from + ((at + 0.5) / count) * (to - from);
    found[at] = cell >= span[0] && cell < span[1] ? Math.floor((cell - span[0]) / length) : -1;
  }
  return found;
}

/**
 * Fill `pixels` with what a window shows of layers, of which later ones lie over earlier ones.
 * @param {Uint32Array} pixels
 * @param {number} width
 * @param {number} height
 * @param {import("./window.js").Window} window
 * @param {Layer[]} layers
 * @param {Palette} colours
 */
export function paint(pixels, width, height, [top, bottom, left, right], layers, colours) {
  const placed = layers.map((layer) => ({
    layer,
    n: blocks(layer.columns, layer.wide),
    down: along(height, top, bottom, layer.rows, layer.tall),
    across: along(width, left, right, layer.columns, layer.wide),
  })).reverse();
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const found = placed.find(({ down, across }) => down[y] >= 0 && across[x] >= 0);
      if (!found) continue;
      const index = found.down[y] * found.n + found.across[x];
      const code = found.layer.codes[index];
      const hidden = code === MASKED && ((x + y) & 3) === 0;
      pixels[y * width + x] = bit(found.layer.nan, index) ? colours.nan : hidden ? colours.hatch : colours.codes[code];
    }
  }
}

/**
 * What stands at a cell: its block, and its weight: that of the cell where blocks are single cells, else their largest.
 * @param {Layer[]} layers
 * @param {number} largest
 * @param {[number, number]} cell
 */
export function blockAt(layers, largest, [row, column]) {
  const layer = layers.findLast(({ rows, columns }) => row >= rows[0] && row < rows[1] && column >= columns[0] && column < columns[1]);
  if (!layer) return null;
  const { rows, columns, tall, wide, codes, nan, values } = layer;
  const [down, across] = [Math.floor((row - rows[0]) / tall), Math.floor((column - columns[0]) / wide)];
  const index = down * blocks(columns, wide) + across;
  return {
    rows: [rows[0] + down * tall, Math.min(rows[0] + (down + 1) * tall, rows[1])],
    columns: [columns[0] + across * wide, Math.min(columns[0] + (across + 1) * wide, columns[1])],
    isMasked: codes[index] === MASKED,
    isNan: bit(nan, index),
    exact: values !== undefined,
    weight: values ? values[index] : weightOf(codes[index], largest),
    layer,
  };
}

/**
 * Whether anything that is hidden, or no number, is among what layers show.
 * @param {Layer[]} layers
 */
export function marked(layers) {
  return { masked: layers.some(({ codes }) => codes.includes(MASKED)), nan: layers.some(({ nan }) => nan !== undefined) };
}
