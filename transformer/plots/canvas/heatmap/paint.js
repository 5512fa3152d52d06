// From weights to pixels: the whole map, in blocks where it is long, and over it the part that was asked for.

import { bit } from "../shared/blob.js";
import { between, NAN, rgb, scale } from "../shared/colours.js";

/** What a masked cell holds instead of a weight. */
export const MASKED = -Infinity;

const HIDDEN = 255; // the code of a masked block
const LARGEST_CODE = 254;
const STEPS = 1024; // colours of a scale

/**
 * A rectangle of a map in blocks of `tall` x `wide` cells, by their weights or by codes.
 * @typedef {object} Layer
 * @property {[number, number]} rows
 * @property {[number, number]} columns
 * @property {number} tall
 * @property {number} wide
 * @property {Uint8Array} [codes] square roots of shares of the map's largest weight
 * @property {Uint8Array} [nan]
 * @property {Float32Array} [values] weights as they are
 * @property {string[]} [queries] names of its rows, where they are known
 * @property {string[]} [keys]
 */

/** @typedef {{ pixelOf: (weight: number) => number, masked: number, hatch: number }} Look */

/**
 * The weight of a block: `MASKED`, NaN, or the largest of its cells.
 * @param {Layer} layer
 * @param {number} index
 * @param {number} largest
 */
export function weightAt({ codes, nan, values }, index, largest) {
  if (values) return values[index];
  if (!codes || codes[index] === HIDDEN) return MASKED;
  return bit(nan, index) ? NaN : largest * (codes[index] / LARGEST_CODE) ** 2;
}

/**
 * [red, green, blue] of a weight, on a scale from 0 to `end`, or from -`end` to `end` where it is `centred`.
 * @param {number} weight
 * @param {number} end
 * @param {boolean} centred
 * @param {import("../shared/colours.js").Theme} theme
 */
export function colourOf(weight, end, centred, theme) {
  const share = end ? weight / end : 0;
  return centred ? between(share, theme) : scale(share);
}

/**
 * How weights look on such a scale, as pixels.
 * @param {number} end
 * @param {boolean} centred
 * @param {import("../shared/colours.js").Theme} theme
 * @returns {Look}
 */
export function lookOf(end, centred, theme) {
  const pixel = (/** @type {number[]} */ [red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  const from = centred ? -1 : 0;
  const table = Uint32Array.from({ length: STEPS + 1 }, (_, step) => pixel(colourOf(from + (step / STEPS) * (1 - from), 1, centred, theme)));
  const nan = pixel(rgb(NAN));
  return {
    pixelOf: (weight) => {
      if (Number.isNaN(weight)) return nan;
      if (weight === MASKED) return 0;
      const share = end ? weight / end : 0;
      return table[Math.round(Math.min(Math.max((share - from) / (1 - from), 0), 1) * STEPS)];
    },
    masked: pixel(theme.masked),
    hatch: pixel(theme.hatch),
  };
}

/**
 * Blocks along a side of a layer.
 * @param {[number, number]} span
 * @param {number} length
 */
function blocks([from, to], length) {
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
  return Int32Array.from({ length: count }, (_, at) => {
    const cell = from + ((at + 0.5) / count) * (to - from);
    return cell >= span[0] && cell < span[1] ? Math.floor((cell - span[0]) / length) : -1;
  });
}

/**
 * Fill `pixels` with what a window shows of layers, of which later ones lie over earlier ones.
 * @param {Uint32Array} pixels
 * @param {number} width
 * @param {number} height
 * @param {import("./window.js").Window} window
 * @param {Layer[]} layers
 * @param {number} largest
 * @param {Look} look
 */
export function paint(pixels, width, height, [top, bottom, left, right], layers, largest, look) {
  const placed = layers.map((layer) => {
    const n = blocks(layer.columns, layer.wide);
    return {
      n,
      colours: Uint32Array.from({ length: n * blocks(layer.rows, layer.tall) }, (_, index) => look.pixelOf(weightAt(layer, index, largest))),
      down: along(height, top, bottom, layer.rows, layer.tall),
      across: along(width, left, right, layer.columns, layer.wide),
    };
  }).reverse();
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const found = placed.find(({ down, across }) => down[y] >= 0 && across[x] >= 0);
      if (!found) continue;
      const colour = found.colours[found.down[y] * found.n + found.across[x]];
      pixels[y * width + x] = colour || (((x + y) & 3) === 0 ? look.hatch : look.masked);
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
  const { rows, columns, tall, wide, values } = layer;
  const [down, across] = [Math.floor((row - rows[0]) / tall), Math.floor((column - columns[0]) / wide)];
  return {
    rows: [rows[0] + down * tall, Math.min(rows[0] + (down + 1) * tall, rows[1])],
    columns: [columns[0] + across * wide, Math.min(columns[0] + (across + 1) * wide, columns[1])],
    exact: values !== undefined,
    weight: weightAt(layer, down * blocks(columns, wide) + across, largest),
    layer,
  };
}

/**
 * Whether anything that is hidden, or no number, is among what layers show.
 * @param {Layer[]} layers
 */
export function marked(layers) {
  return {
    masked: layers.some(({ codes, values }) => (values ? values.includes(MASKED) : codes?.includes(HIDDEN))),
    nan: layers.some(({ nan, values }) => (values ? values.includes(NaN) : nan !== undefined)),
  };
}
