// The cells of every matrix of weights: from weights to pixels, or to boxes of a scene; and whether a row looks at what
// decided its word. Of a long map the whole lies in blocks below the part that was asked for.

import { bit } from "./blob.js";
import { between, css, NAN, rgb, scale } from "./colours.js";
import { pen } from "./page.js";
import { decidedIn } from "./scene.js";
import { fill } from "./words.js";

/** What a masked cell holds instead of a weight, as Python sends it. */
export const MASKED = -Infinity;

const HIDDEN = 255; // the code of a masked cell or block
export const LARGEST_CODE = 254; // of a weight of 1

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
 * @param {import("./colours.js").Theme} theme
 */
export function colourOf(weight, end, centred, theme) {
  const share = end ? weight / end : 0;
  return centred ? between(share, theme) : scale(share);
}

/**
 * How weights look on such a scale, as pixels of so many colours.
 * @param {number} end
 * @param {boolean} centred
 * @param {import("./colours.js").Theme} theme
 * @returns {Look}
 */
export function lookOf(end, centred, theme, steps = 1024) {
  const pixel = (/** @type {number[]} */ [red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  const from = centred ? -1 : 0;
  const colourAt = (/** @type {number} */ share) => colourOf(from + share * (1 - from), 1, centred, theme);
  const table = Uint32Array.from({ length: steps + 1 }, (_, step) => pixel(colourAt(step / steps)));
  const nan = pixel(rgb(NAN));
  return {
    pixelOf: (weight) => {
      if (Number.isNaN(weight)) return nan;
      if (weight === MASKED) return 0;
      const share = end ? weight / end : 0;
      return table[Math.round(Math.min(Math.max((share - from) / (1 - from), 0), 1) * steps)];
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
 * @param {import("../heatmap/zoom.js").Window} window
 * @param {Layer[]} layers
 * @param {number} largest
 * @param {Look} look
 */
export function paint(pixels, width, height, [top, bottom, left, right], layers, largest, look) {
  for (const layer of layers) {
    const n = blocks(layer.columns, layer.wide);
    const count = n * blocks(layer.rows, layer.tall);
    const colours = Uint32Array.from({ length: count }, (_, at) => look.pixelOf(weightAt(layer, at, largest)));
    const down = along(height, top, bottom, layer.rows, layer.tall);
    const across = along(width, left, right, layer.columns, layer.wide);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        if (down[y] < 0 || across[x] < 0) continue;
        const colour = colours[down[y] * n + across[x]];
        pixels[y * width + x] = colour || (((x + y) & 3) === 0 ? look.hatch : look.masked);
      }
    }
  }
}

/**
 * Fill a canvas of `width` x `height` pixels with a window of a map.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {import("../heatmap/zoom.js").Window} window
 * @param {Layer[]} layers
 * @param {number} largest
 * @param {Look} look
 */
export function paintOn(canvas, width, height, window, layers, largest, look) {
  Object.assign(canvas, { width, height });
  const context = pen(canvas);
  const image = context.createImageData(width, height);
  paint(new Uint32Array(image.data.buffer), width, height, window, layers, largest, look);
  context.putImageData(image, 0, 0);
}

/**
 * A map of which every cell is known, as one layer.
 * @param {Float32Array} values
 * @param {number} rows
 * @param {number} columns
 * @returns {Layer}
 */
export function wholeOf(values, rows, columns) {
  return { rows: [0, rows], columns: [0, columns], tall: 1, wide: 1, values };
}

/**
 * A cell of a scene, from its upper left corner: masked ones are crossed by a line.
 * @param {number} weight
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 * @param {import("./colours.js").Theme} theme
 * @param {number} end of the colours
 * @param {boolean} centred
 * @returns {import("./scene.js").Item[]}
 */
export function cellOf(weight, x, y, width, height, theme, end = 1, centred = false) {
  if (weight !== MASKED) {
    const colour = Number.isNaN(weight) ? NAN : css(colourOf(weight, end, centred, theme));
    return [{ kind: "box", x, y, width, height, colour }];
  }
  return [
    { kind: "box", x, y, width, height, colour: css(theme.masked) },
    { kind: "rule", x0: x, y0: y + height, x1: x + width, y1: y, colour: css(theme.hatch), width: 1 },
  ];
}

/** @typedef {{ left: number, top: number, cell: number, tall: number }} Corner Of all cells; a cell's width, height. */

/**
 * The cells of a map one by one.
 * @param {Float32Array} values
 * @param {number} columns
 * @param {Corner} corner
 * @param {import("./colours.js").Theme} theme
 * @param {number} [end]
 * @param {boolean} [centred]
 */
export function boxesOf(values, columns, { left, top, cell, tall }, theme, end, centred) {
  return Array.from(values).flatMap((weight, at) => {
    const [x, y] = [left + (at % columns) * cell, top + Math.floor(at / columns) * tall];
    return cellOf(weight, x, y, cell, tall, theme, end, centred);
  });
}

/**
 * A row of a map.
 * @template {ArrayBufferLike} Buffer
 * @param {Float32Array<Buffer>} values
 * @param {number} columns
 * @param {number} row
 */
export function rowOf(values, columns, row) {
  return values.subarray(row * columns, (row + 1) * columns);
}

/**
 * Weights that stand as codes, a byte each: shares of 254, 255 where masked; `nan` has a bit a cell, if there is one.
 * @param {Uint8Array} codes
 * @param {Uint8Array} [nan]
 */
export function valuesOf(codes, nan) {
  return Float32Array.from(codes, (code, at) => (bit(nan, at) ? NaN : code === HIDDEN ? MASKED : code / LARGEST_CODE));
}

/**
 * What stands at a cell: its block, and its weight: that of the cell where blocks are single cells, else their largest.
 * @param {Layer[]} layers
 * @param {number} largest
 * @param {[number, number]} cell
 */
export function blockAt(layers, largest, [row, column]) {
  const layer = layers.findLast(({ rows, columns }) =>
    row >= rows[0] && row < rows[1] && column >= columns[0] && column < columns[1]);
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

/**
 * What marks of cells mean that are no weights, for a legend.
 * @param {{ masked?: boolean, nan?: boolean }} found
 * @param {{ masked: string, nan: string }} words
 * @param {import("./colours.js").Theme} theme
 * @returns {import("./saved.js").Legend["marks"]}
 */
export function marksOf({ masked, nan }, words, theme) {
  /** @type {[there: boolean | undefined, mark: number, text: string][]} */
  const kinds = [[masked, MASKED, words.masked], [nan, NaN, words.nan]];
  return kinds
    .filter(([there]) => there)
    .map(([, mark, text]) => [text, (x, y, side) => cellOf(mark, x, y, side, side, theme)]);
}

/** @typedef {[key: number, nats?: number][]} Decided For each query the key that decides it, -1 where none does. */

/**
 * The place of the largest weight of a row: the first of equals, and no NaN where there is a number.
 * @param {ArrayLike<number>} row
 */
export function strongestOf(row) {
  return Array.from(row).reduce((best, weight, at) => (weight > row[best] || Number.isNaN(row[best]) ? at : best), 0);
}

/**
 * Whether no weight of a row is larger than that of a key; not where one is no number.
 * @param {ArrayLike<number>} row
 * @param {number} key
 */
export function agrees(row, key) {
  return Array.from(row).every((weight) => weight <= row[key]);
}

/**
 * The queries with the keys that decide them, where they look at another key most.
 * @param {Decided} decided
 * @param {Float32Array} weights of a head
 * @param {number} keys
 */
export function decidedElsewhere(decided, weights, keys) {
  return decided.flatMap(([key], query) =>
    (key < 0 || agrees(rowOf(weights, keys, query), key) ? [] : [{ query, key }]));
}

/**
 * In how many words that some key decides a head looked at that one most; or why that is not known.
 * @param {Decided | undefined} decided undefined where nobody asked, empty where it is not known
 * @param {Float32Array} weights of a head
 * @param {number} keys
 * @param {[agree: string, none: string, unknown: string]} said the sentences for each
 */
export function agreement(decided, weights, keys, [agree, none, unknown]) {
  if (!decided) return "";
  const known = decided.flatMap(([key], query) => (key < 0 ? [] : [agrees(rowOf(weights, keys, query), key)]));
  if (!known.length) return decided.length ? none : unknown;
  return fill(agree, { hits: known.filter(Boolean).length, decided: known.length });
}

/**
 * Rings in the cells of a map whose keys decide a query that looks at another one most.
 * @param {Decided} decided
 * @param {Float32Array} weights
 * @param {number} keys
 * @param {Corner} corner
 */
export function ringsOf(decided, weights, keys, { left, top, cell, tall }) {
  return decidedElsewhere(decided, weights, keys).flatMap(({ query, key }) =>
    decidedIn(left + key * cell, top + query * tall, cell, tall));
}
