// One matrix on a canvas: colours for all cells, numbers where they fit, marks for what is lit.

import { bit } from "../shared/blob.js";
import { NAN, scale } from "../shared/colours.js";
import { pen, shortened } from "../shared/page.js";

/** @typedef {import("../shared/colours.js").Theme} Theme */
/** @typedef {ReturnType<typeof geometry>} Geometry */
/** @typedef {ReturnType<typeof paints>} Paints */

/** @typedef {"picked" | "sources" | "targets" | "furtherSources" | "furtherTargets"} Relation */

/**
 * What Python says of a matrix.
 * @typedef {object} Matrix
 * @property {string} name
 * @property {string} symbol
 * @property {string} title
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {boolean} weights whether these are attention weights, from 0 to 1
 * @property {string[]} sentences what the codes of cells mean
 */

/**
 * What is drawn of a matrix: how its cells belong to the picked one, and where the keyboard stands, if it does.
 * @typedef {object} Drawn
 * @property {Matrix} matrix
 * @property {Float32Array} values
 * @property {Uint8Array | undefined} hidden a bit a cell that the mask hides
 * @property {Uint8Array | undefined} outlined a bit a cell that is outlined, whatever is picked
 * @property {Geometry} shape
 * @property {((index: number) => Relation | undefined) | null} relation null where nothing is picked
 * @property {[number, number] | null} focused
 */

const FONT = 12;
const WIDEST_WITH_NUMBERS = 20; // columns; wider matrices are colours alone
const LABEL = 84; // pixels for a row's label, at most
const LINE = 16;

/**
 * Colours of the four relations, and of an outline that warns; the two directions differ in lightness too, for people who see hue differently.
 * @param {Pick<Theme, "dark">} theme
 */
export function paints(theme) {
  return theme.dark
    ? { picked: "#ffffff", sources: "#5cc4d2", targets: "#ffb454", further: "#8d99a6", outlined: "#ff5d73" }
    : { picked: "#000000", sources: "#00788a", targets: "#c25100", further: "#7b8794", outlined: "#d1002c" };
}

/**
 * Where the cells of a matrix lie on its canvas, in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {Matrix} matrix
 * @param {Theme} theme
 */
export function geometry(canvas, matrix, theme) {
  const context = pen(canvas);
  context.font = `${FONT}px ${theme.font}`;
  const [rows, columns] = [matrix.rows.length, matrix.columns.length];
  const numbers = columns <= WIDEST_WITH_NUMBERS && rows <= 2 * WIDEST_WITH_NUMBERS;
  const widest = Math.max(...matrix.rows.map((row) => context.measureText(row).width));
  const widestColumn = Math.max(...matrix.columns.map((column) => context.measureText(column).width));
  const width = numbers ? Math.min(Math.max(46, widestColumn + 6), 76) : 6;
  const height = numbers ? 26 : rows > 40 ? 5 : 16;
  const left = numbers || rows <= 40 ? Math.ceil(Math.min(widest, LABEL)) + 6 : 4;
  const top = numbers ? LINE + 2 : 2;
  return { numbers, width, height, left, top, wide: left + columns * width + 3, tall: top + rows * height + 3 };
}

/**
 * A number as a cell shows it.
 * @param {number} value
 * @param {number} digits
 * @param {string} undefinedWord
 */
export function written(value, digits, undefinedWord) {
  if (Number.isNaN(value)) return undefinedWord;
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  if (Math.abs(value) >= 1e5) return value.toExponential(0).replace("e+", "e").replace("-", "−");
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/**
 * Draw a matrix, its upper left corner at the pen's origin.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 * @param {Theme} theme
 * @param {Paints} colours
 */
export function drawMatrix(context, { matrix, values, hidden, outlined, shape, relation, focused }, theme, colours) {
  const [rows, columns] = [matrix.rows.length, matrix.columns.length];
  context.font = `${FONT}px ${theme.font}`;
  labels(context, matrix, shape, theme);
  const colour = colouring(matrix, values, theme);
  const digits = values.every((value) => Number.isInteger(value) || !Number.isFinite(value)) && !matrix.weights ? 0 : 2;
  /** @type {[number, number, Relation][]} */
  const marks = [];
  for (let index = 0; index < rows * columns; index++) {
    const x = shape.left + (index % columns) * shape.width;
    const y = shape.top + Math.floor(index / columns) * shape.height;
    const how = relation?.(index);
    const faded = relation && !how;
    context.globalAlpha = faded ? 0.3 : how?.startsWith("further") ? 0.75 : 1;
    const isHidden = bit(hidden, index);
    const [fill, ink] = isHidden && !Number.isNaN(values[index]) ? [`rgb(${theme.masked})`, theme.text] : colour(values[index]);
    context.fillStyle = fill;
    context.fillRect(x, y, shape.width, shape.height);
    if (isHidden) hatch(context, x, y, shape, theme);
    if (shape.numbers) {
      context.globalAlpha = faded ? 0.5 : 1;
      context.fillStyle = faded ? theme.text : ink;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(written(values[index], digits, "?"), x + shape.width / 2, y + shape.height / 2 + 0.5);
    }
    if (how) marks.push([x, y, how]);
  }
  context.globalAlpha = 1;
  grid(context, rows, columns, shape, theme);
  for (let index = 0; index < rows * columns; index++) {
    if (!bit(outlined, index)) continue;
    const [x, y] = [shape.left + (index % columns) * shape.width, shape.top + Math.floor(index / columns) * shape.height];
    outline(context, x, y, shape, colours.outlined, 3);
  }
  for (const [x, y, how] of marks) mark(context, x, y, how, shape, colours);
  if (focused) {
    context.setLineDash([3, 2]);
    outline(context, shape.left + focused[1] * shape.width, shape.top + focused[0] * shape.height, shape, theme.primary, 2);
    context.setLineDash([]);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Matrix} matrix
 * @param {Geometry} shape
 * @param {Theme} theme
 */
function labels(context, matrix, shape, theme) {
  context.fillStyle = theme.text;
  context.textBaseline = "middle";
  context.textAlign = "right";
  if (shape.numbers || matrix.rows.length <= 40) {
    matrix.rows.forEach((row, i) =>
      context.fillText(shortened(context, row, LABEL), shape.left - 4, shape.top + (i + 0.5) * shape.height),
    );
  }
  if (!shape.numbers) return;
  context.textAlign = "center";
  matrix.columns.forEach((column, i) =>
    context.fillText(shortened(context, column, shape.width - 2), shape.left + (i + 0.5) * shape.width, LINE / 2),
  );
}

/**
 * value -> [fill, ink]: weights on the sequential scale, other numbers on a diverging one about 0.
 * @param {Matrix} matrix
 * @param {Float32Array} values
 * @param {Theme} theme
 * @returns {(value: number) => [string, string]}
 */
function colouring(matrix, values, theme) {
  const finite = values.filter((value) => Number.isFinite(value) && Math.abs(value) < 1e5);
  const largest = finite.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const css = (/** @type {number[]} */ channels) => `rgb(${channels.join(",")})`;
  const ink = (/** @type {number[]} */ channels) =>
    (channels[0] * 0.299 + channels[1] * 0.587 + channels[2] * 0.114 > 140 ? "#111" : "#fff");
  const middle = theme.dark ? [38, 46, 54] : [247, 245, 240];
  const [low, high] = theme.dark ? [[92, 154, 232], [236, 140, 74]] : [[56, 118, 190], [214, 108, 34]];
  return (value) => {
    if (Number.isNaN(value)) return [NAN, "#fff"];
    if (Math.abs(value) >= 1e5) return [css(theme.masked), theme.text];
    const share = Math.min(Math.abs(value) / largest, 1);
    const end = value < 0 ? low : high;
    const channels = matrix.weights ? scale(value) : middle.map((from, i) => Math.round(from + (end[i] - from) * share));
    return [css(channels), ink(channels)];
  };
}

/**
 * Strokes across a cell that the mask hides, so that it is never taken for a small number.
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {Geometry} shape
 * @param {Theme} theme
 */
function hatch(context, x, y, shape, theme) {
  context.save();
  context.beginPath();
  context.rect(x, y, shape.width, shape.height);
  context.clip();
  context.beginPath();
  for (let from = -shape.height; from < shape.width; from += 8) {
    context.moveTo(x + from, y + shape.height);
    context.lineTo(x + from + shape.height, y);
  }
  context.strokeStyle = `rgb(${theme.hatch})`;
  context.globalAlpha *= 0.5;
  context.stroke();
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} rows
 * @param {number} columns
 * @param {Geometry} shape
 * @param {Theme} theme
 */
function grid(context, rows, columns, shape, theme) {
  context.strokeStyle = theme.border;
  context.lineWidth = 1;
  context.strokeRect(shape.left - 0.5, shape.top - 0.5, columns * shape.width + 1, rows * shape.height + 1);
  if (!shape.numbers) return;
  context.beginPath();
  for (let i = 1; i < columns; i++) {
    context.moveTo(shape.left + i * shape.width + 0.5, shape.top);
    context.lineTo(shape.left + i * shape.width + 0.5, shape.top + rows * shape.height);
  }
  for (let i = 1; i < rows; i++) {
    context.moveTo(shape.left, shape.top + i * shape.height + 0.5);
    context.lineTo(shape.left + columns * shape.width, shape.top + i * shape.height + 0.5);
  }
  context.globalAlpha = 0.6;
  context.stroke();
  context.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {Relation} how
 * @param {Geometry} shape
 * @param {Paints} colours
 */
function mark(context, x, y, how, shape, colours) {
  const further = how === "furtherSources" || how === "furtherTargets";
  if (further) context.setLineDash([2, 2]);
  outline(context, x, y, shape, further ? colours.further : colours[how], how === "picked" ? 3 : further ? 1 : 2);
  context.setLineDash([]);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {Geometry} shape
 * @param {string} colour
 * @param {number} width
 */
function outline(context, x, y, shape, colour, width) {
  const inset = shape.width < 12 ? 0.5 : width / 2 + 0.5;
  context.strokeStyle = colour;
  context.lineWidth = shape.width < 12 ? 1 : width;
  context.strokeRect(x + inset, y + inset, shape.width - 2 * inset, shape.height - 2 * inset);
}
