// One matrix on a canvas: colours for all cells, numbers where they fit, marks for what is lit.

import { bit } from "../../../transformer/plots/canvas/shared/blob.js";
import { between, css, inkOn, NAN, scale } from "../../../transformer/plots/canvas/shared/colours.js";
import { pen, shortened } from "../../../transformer/plots/canvas/shared/page.js";
import { written } from "../../../transformer/plots/canvas/shared/words.js";

/** @typedef {import("../../../transformer/plots/canvas/shared/colours.js").Theme} Theme */
/** @typedef {ReturnType<typeof geometry>} Geometry */
/** @typedef {ReturnType<typeof paints>} Paints */

/** How much is left of what does not belong to the picked cell; its numbers keep a contrast of 4.5. */
export const FADED = { fill: 0.3, ink: 0.8 };

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
 * @property {boolean} mask whether these only say what is visible
 * @property {boolean} narrow whether cells are only as wide as 0, 1 and minus infinity need
 * @property {boolean} asked whether a reader fills them: NaN is a question mark, 0 empty, 0.5 filled, others a number
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
 * @property {((index: number) => Relation | undefined) | null} relation null where no cell is marked
 * @property {boolean} fades whether what does not belong to the marked cell fades
 * @property {[number, number] | null} focused
 */

const FONT = 12;
const WIDEST_WITH_NUMBERS = 20; // columns; wider matrices are colours alone, or leave out their middle
const WIDEST_ELIDED = 24; // columns and rows that a matrix may have before its middle is left out
const BEGINNING = 4; // columns or rows that are left at the beginning, and a quarter of them at the end
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
 * Which of `count` rows or columns are shown: all of them, or the first, the last and those about `kept`; -1 is a gap.
 * @param {number} count
 * @param {number} most
 * @param {number[]} kept
 */
export function elision(count, most, kept) {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  const near = (/** @type {number} */ i) => kept.some((one) => Math.abs(one - i) <= 1);
  /** @type {number[]} */
  const shown = [];
  for (let i = 0; i < count; i++) {
    if (i < BEGINNING || i >= count - BEGINNING / 4 || near(i)) shown.push(i);
    else if (shown.at(-1) !== -1) shown.push(-1);
  }
  return shown;
}

/**
 * Where the cells of a matrix lie on its canvas, in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {Matrix} matrix
 * @param {Theme} theme
 * @param {number} zoom how much larger than usual numbers and cells are
 * @param {[number, number][] | null} kept cells that stay to be seen where the middle is left out; null: nothing is
 */
export function geometry(canvas, matrix, theme, zoom = 1, kept = null) {
  const context = pen(canvas);
  const font = Math.round(FONT * zoom);
  context.font = `${font}px ${theme.font}`;
  const at = (/** @type {0 | 1} */ axis) => (kept ?? []).map((cell) => cell[axis]);
  const all = (/** @type {string[]} */ names) => names.map((_, i) => i);
  const rowsAt = kept ? elision(matrix.rows.length, WIDEST_ELIDED, at(0)) : all(matrix.rows);
  const columnsAt = kept ? elision(matrix.columns.length, WIDEST_ELIDED, at(1)) : all(matrix.columns);
  const [rows, columns] = [rowsAt.length, columnsAt.length];
  const numbers = kept !== null || (columns <= WIDEST_WITH_NUMBERS && rows <= 2 * WIDEST_WITH_NUMBERS);
  const label = (matrix.asked ? 2 : 1) * LABEL * zoom;
  const widest = Math.max(...matrix.rows.map((row) => context.measureText(row).width));
  const widestColumn = Math.max(...matrix.columns.map((column) => context.measureText(column).width));
  const width = numbers ? Math.round(Math.min(Math.max((matrix.narrow ? 28 : 46) * zoom, widestColumn + 6), 76 * zoom)) : 6;
  const height = numbers ? Math.round((matrix.asked && rows > 8 ? 18 : 26) * zoom) : rows > 40 ? 5 : 16;
  const left = numbers || rows <= 40 ? Math.ceil(Math.min(widest, label)) + 6 : 4;
  const line = Math.round(LINE * zoom);
  const top = numbers ? line + 2 : 2;
  const sizes = { wide: left + columns * width + 3, tall: top + rows * height + 3 };
  return { numbers, width, height, left, top, ...sizes, font, label, line, rowsAt, columnsAt };
}

/**
 * How much larger matrices may be drawn so that they still stand beside each other and end in the window.
 * @param {{ wide: number, tall: number }[]} shapes as large as usual
 * @param {number} width of the place for them
 * @param {number} height of the window
 */
export function zoomFor(shapes, width, height) {
  const [gap, most] = [26, 1.8];
  const together = shapes.reduce((sum, { wide }) => sum + wide, 0) + gap * (shapes.length - 1);
  const [widest, tallest] = [Math.max(1, ...shapes.map(({ wide }) => wide)), Math.max(1, ...shapes.map(({ tall }) => tall))];
  const beside = together <= width ? width / together : Math.min(width / widest, width / 700);
  const least = Math.max(0.84, Math.min(1, width / widest)); // letters of 10 pixels
  return Math.max(least, Math.min(most, beside * 0.99, (0.62 * height) / tallest));
}

/**
 * Decimals that a cell has room for: fewer for large numbers, which would run into their neighbours.
 * @param {number} value
 * @param {number} digits
 */
function room(value, digits) {
  const size = Number.isFinite(value) ? Math.floor(Math.log10(Math.max(1, Math.abs(value)))) : 0;
  return Math.max(0, Math.min(digits, 3 - size));
}

/**
 * Draw a matrix, its upper left corner at the pen's origin.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 * @param {Theme} theme
 * @param {Paints} colours
 */
export function drawMatrix(context, { matrix, values, hidden, outlined, shape, relation, fades, focused }, theme, colours) {
  const columns = matrix.columns.length;
  context.font = `${shape.font}px ${theme.font}`;
  labels(context, matrix, shape, theme);
  const colour = colouring(matrix, values, theme);
  const digits = values.every((value) => Number.isInteger(value) || !Number.isFinite(value)) && !matrix.weights ? 0 : 2;
  /** @type {[number, number, Relation][]} */
  const marks = [];
  /** @type {[number, number][]} */
  const rings = [];
  each(shape, (row, column, x, y) => {
    if (row < 0 || column < 0) return dots(context, x, y, shape, theme);
    const index = row * columns + column;
    const how = relation?.(index);
    const faded = fades && relation && !how;
    context.globalAlpha = faded ? FADED.fill : fades && how?.startsWith("further") ? 0.75 : 1;
    const isHidden = bit(hidden, index);
    const [fill, ink] = isHidden && !Number.isNaN(values[index]) ? [`rgb(${theme.masked})`, theme.text] : colour(values[index]);
    context.fillStyle = fill;
    context.fillRect(x, y, shape.width, shape.height);
    if (isHidden) hatch(context, x, y, shape, theme);
    if (shape.numbers && !(matrix.asked && values[index] < 1)) {
      context.globalAlpha = faded ? FADED.ink : 1;
      context.fillStyle = faded ? theme.text : ink;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(written(values[index], room(values[index], digits), "?"), x + shape.width / 2, y + shape.height / 2 + 0.5);
    }
    if (how) marks.push([x, y, how]);
    if (bit(outlined, index)) rings.push([x, y]);
  });
  context.globalAlpha = 1;
  grid(context, shape, theme);
  for (const [x, y] of rings) outline(context, x, y, shape, colours.outlined, 3);
  for (const [x, y, how] of marks) mark(context, x, y, how, shape, colours);
  if (focused) {
    context.setLineDash([3, 2]);
    outline(context, ...corner(shape, ...focused), shape, theme.primary, 2);
    context.setLineDash([]);
  }
}

/**
 * Where a cell lies.
 * @param {Geometry} shape
 * @param {number} row
 * @param {number} column
 * @returns {[number, number]}
 */
function corner(shape, row, column) {
  return [shape.left + shape.columnsAt.indexOf(column) * shape.width, shape.top + shape.rowsAt.indexOf(row) * shape.height];
}

/**
 * Every place of the canvas: its row and column, -1 for what is left out, and its upper left corner.
 * @param {Geometry} shape
 * @param {(row: number, column: number, x: number, y: number) => void} visit
 */
function each({ rowsAt, columnsAt, left, top, width, height }, visit) {
  rowsAt.forEach((row, i) => columnsAt.forEach((column, j) => visit(row, column, left + j * width, top + i * height)));
}

/**
 * Dots in the place of what is left out.
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {Geometry} shape
 * @param {Theme} theme
 */
function dots(context, x, y, shape, theme) {
  context.globalAlpha = 1;
  context.fillStyle = theme.text;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText("⋯", x + shape.width / 2, y + shape.height / 2);
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
  const text = (/** @type {string[]} */ names, /** @type {number} */ i, /** @type {number} */ width) =>
    (i < 0 ? "⋯" : shortened(context, names[i], width));
  if (shape.numbers || matrix.rows.length <= 40) {
    shape.rowsAt.forEach((row, i) =>
      context.fillText(text(matrix.rows, row, shape.label), shape.left - 4, shape.top + (i + 0.5) * shape.height),
    );
  }
  if (!shape.numbers) return;
  context.textAlign = "center";
  shape.columnsAt.forEach((column, i) =>
    context.fillText(text(matrix.columns, column, shape.width - 2), shape.left + (i + 0.5) * shape.width, shape.line / 2),
  );
}

/**
 * Where a matrix's colours end: its largest number on either side; numbers that stand for minus infinity do not count.
 * @param {Float32Array} values
 */
export function largestOf(values) {
  const finite = values.filter((value) => Number.isFinite(value) && Math.abs(value) < 1e5);
  return finite.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

/**
 * The colour of what a mask leaves visible.
 * @param {Pick<Theme, "dark">} theme
 */
export const visible = ({ dark }) => (dark ? [22, 94, 104] : [176, 220, 216]);

/**
 * value -> [fill, ink]: weights on the sequential scale, other numbers on a diverging one about 0.
 * @param {Matrix} matrix
 * @param {Float32Array} values
 * @param {Theme} theme
 * @returns {(value: number) => [string, string]}
 */
export function colouring(matrix, values, theme) {
  const largest = largestOf(values) || 1;
  return (value) => {
    if (matrix.asked && !(value > 0)) return [value === 0 ? theme.background : css(theme.masked), theme.text];
    if (Number.isNaN(value)) return [NAN, "#000"];
    if (Math.abs(value) >= 1e5) return [css(theme.masked), theme.text];
    const channels = matrix.mask || matrix.asked ? visible(theme) : matrix.weights ? scale(value) : between(value / largest, theme);
    return [css(channels), inkOn(channels)];
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
 * @param {Geometry} shape
 * @param {Theme} theme
 */
function grid(context, shape, theme) {
  const [rows, columns] = [shape.rowsAt.length, shape.columnsAt.length];
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
