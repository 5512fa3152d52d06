// One matrix on a canvas: its symbol, colours for all cells, numbers where they fit, marks for what is lit; its legend.

import { bit } from "../../../transformer/plots/canvas/shared/blob.js";
import { css, diverging, inkOn, NAN, scale, STOPS } from "../../../transformer/plots/canvas/shared/colours.js";
import { cellOf, colourOf, MASKED } from "../../../transformer/plots/canvas/shared/cells.js";
import { element, pen } from "../../../transformer/plots/canvas/shared/page.js";
import { barOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { fontOf } from "../../../transformer/plots/canvas/shared/scene.js";
import { written } from "../../../transformer/plots/canvas/shared/words.js";

/** @typedef {import("../../../transformer/plots/canvas/shared/colours.js").Theme} Theme */
/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Item} Item */
/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Words} Words */
/** @typedef {import("../../../transformer/plots/canvas/shared/saved.js").Legend} Legend */
/** @typedef {{ text: string, level: -1 | 0 | 1 }} Part Letters of a symbol: on the line, above (1) or below (-1). */
/** @typedef {ReturnType<typeof geometry>} Geometry */
/** @typedef {ReturnType<typeof paints>} Paints */

/** How much is left of what does not belong to the picked cell; its numbers keep a contrast of 4.5. */
export const FADED = { fill: 0.3, ink: 0.8 };

/** @typedef {"picked" | "sources" | "targets" | "further"} Relation */

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
const SMALL = 0.7; // size of raised and lowered letters of symbols such as W^Q_0
const SCALE = 64; // width of a scale of colours in the legend

/**
 * Colours of the four relations, and of an outline that warns; the two directions differ in lightness too, for people
 * who see hue differently.
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
  const wanted = Math.max((matrix.narrow ? 28 : 46) * zoom, widestColumn + 6);
  const width = numbers ? Math.round(Math.min(wanted, 76 * zoom)) : 6;
  const height = numbers ? Math.round((matrix.asked && rows > 8 ? 18 : 26) * zoom) : rows > 40 ? 5 : 16;
  const left = numbers || rows <= 40 ? Math.ceil(Math.min(widest, label)) + 6 : 4;
  const line = Math.round(LINE * zoom);
  const top = numbers ? line + 2 : 2;
  const sizes = { wide: left + columns * width + 3, tall: top + rows * height + 3 };
  return { numbers, width, height, left, top, ...sizes, font, label, line, rowsAt, columnsAt };
}

/**
 * The cell at a point of the canvas, as row and column; null beside the cells, and where some are left out.
 * @param {Pick<Drawn, "shape">} drawn
 * @param {number} x
 * @param {number} y
 * @returns {[number, number] | null}
 */
export function cellAt({ shape }, x, y) {
  const row = shape.rowsAt[Math.floor((y - shape.top) / shape.height)] ?? -1;
  const column = shape.columnsAt[Math.floor((x - shape.left) / shape.width)] ?? -1;
  return row >= 0 && column >= 0 ? [row, column] : null;
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
  const widest = Math.max(1, ...shapes.map(({ wide }) => wide));
  const tallest = Math.max(1, ...shapes.map(({ tall }) => tall));
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
 * A matrix as a scene, its upper left corner at the origin.
 * @param {Drawn} drawn
 * @param {Theme} theme
 * @param {Paints} colours
 * @returns {Item[]}
 */
export function sceneOf({ matrix, values, hidden, outlined, shape, relation, fades, focused }, theme, colours) {
  const { rowsAt, columnsAt, left, top, width, height, font: size } = shape;
  const base = /** @type {const} */ ({ kind: "text", room: Infinity, align: "center", colour: theme.text, size });
  const colour = colouring(matrix, values, theme);
  const digits = values.every((value) => Number.isInteger(value) || !Number.isFinite(value)) && !matrix.weights ? 0 : 2;
  const items = labels(matrix, shape, theme);
  /** @type {Item[]} */
  const marks = [];
  /** @type {Item[]} */
  const rings = [];
  rowsAt.forEach((row, i) => columnsAt.forEach((column, j) => {
    const [x, y] = [left + j * width, top + i * height];
    const [middle, centre] = [x + width / 2, y + height / 2 + 0.5];
    if (row < 0 || column < 0) return items.push({ ...base, text: "⋯", x: middle, y: centre });
    const index = row * matrix.columns.length + column;
    const how = relation?.(index);
    const faded = fades && relation && !how;
    const alpha = faded ? FADED.fill : fades && how === "further" ? 0.75 : 1;
    const isHidden = bit(hidden, index);
    const isMasked = isHidden && !Number.isNaN(values[index]);
    const [fill, ink] = isMasked ? [css(theme.masked), theme.text] : colour(values[index]);
    items.push({ kind: "box", x, y, width, height, colour: fill, alpha });
    if (isHidden) items.push({ ...cellOf(MASKED, x, y, width, height, theme)[1], alpha: alpha / 2 });
    if (shape.numbers && !(matrix.asked && values[index] < 1)) {
      const text = written(values[index], room(values[index], digits), "?");
      const look = { alpha: faded ? FADED.ink : 1, colour: faded ? theme.text : ink };
      items.push({ ...base, text, x: middle, y: centre, ...look });
    }
    if (how) marks.push(outline(x, y, shape, colours[how], lineOf(how)));
    if (bit(outlined, index)) rings.push(outline(x, y, shape, colours.outlined, lineOf("outlined")));
  }));
  items.push(...grid(shape, theme), ...rings, ...marks);
  if (!focused) return items;
  const [x, y] = [left + columnsAt.indexOf(focused[1]) * width, top + rowsAt.indexOf(focused[0]) * height];
  return [...items, outline(x, y, shape, theme.primary, { line: 2, dash: [3, 2] })];
}

/**
 * The names of rows and columns, as far as there is room.
 * @param {Matrix} matrix
 * @param {Geometry} shape
 * @param {Theme} theme
 * @returns {Item[]}
 */
function labels(matrix, { rowsAt, columnsAt, left, top, width, height, numbers, label, line, font: size }, theme) {
  const base = /** @type {const} */ ({ kind: "text", colour: theme.text, size });
  const text = (/** @type {string[]} */ names, /** @type {number} */ i) => (i < 0 ? "⋯" : names[i]);
  /** @type {Item[]} */
  const rows = rowsAt.map((row, i) => (
    { ...base, text: text(matrix.rows, row), x: left - 4, y: top + (i + 0.5) * height, room: label, align: "right" }
  ));
  /** @type {Item[]} */
  const columns = columnsAt.map((column, i) => {
    const x = left + (i + 0.5) * width;
    return { ...base, text: text(matrix.columns, column), x, y: line / 2, room: width - 2, align: "center" };
  });
  return [...(numbers || matrix.rows.length <= 40 ? rows : []), ...(numbers ? columns : [])];
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
    const end = matrix.weights ? 1 : largest;
    const isMask = matrix.mask || matrix.asked;
    const channels = isMask ? visible(theme) : colourOf(value, end, !matrix.weights, theme);
    return [css(channels), inkOn(channels)];
  };
}

/**
 * The frame around all cells, and the lines between those that have numbers.
 * @param {Geometry} shape
 * @param {Theme} theme
 * @returns {Item[]}
 */
function grid({ rowsAt, columnsAt, left, top, width, height, numbers }, { border: colour }) {
  const [wide, tall] = [columnsAt.length * width, rowsAt.length * height];
  const rule = /** @type {const} */ ({ kind: "rule", colour, width: 1, alpha: 0.6 });
  const down = columnsAt.slice(1).map((_, i) => left + (i + 1) * width + 0.5);
  const across = rowsAt.slice(1).map((_, i) => top + (i + 1) * height + 0.5);
  const lines = [
    ...down.map((x) => ({ ...rule, x0: x, y0: top, x1: x, y1: top + tall })),
    ...across.map((y) => ({ ...rule, x0: left, y0: y, x1: left + wide, y1: y })),
  ];
  /** @type {Item} */
  const frame = { kind: "frame", x: left - 0.5, y: top - 0.5, width: wide + 1, height: tall + 1, colour, line: 1 };
  return [frame, ...(numbers ? lines : [])];
}

/**
 * How thick an outline is, and its dashes.
 * @param {keyof Paints} name
 * @returns {{ line: number, dash?: number[] }}
 */
export function lineOf(name) {
  if (name === "further") return { line: 1, dash: [2, 2] };
  return { line: name === "picked" || name === "outlined" ? 3 : 2 };
}

/**
 * @param {number} x
 * @param {number} y
 * @param {Geometry} shape
 * @param {string} colour
 * @param {ReturnType<typeof lineOf>} look
 * @returns {Item}
 */
function outline(x, y, shape, colour, { line: wanted, dash }) {
  const line = shape.width < 12 ? 1 : wanted;
  const inset = shape.width < 12 ? 0.5 : line / 2 + 0.5;
  const [width, height] = [shape.width - 2 * inset, shape.height - 2 * inset];
  return { kind: "frame", x: x + inset, y: y + inset, width, height, colour, line, dash };
}

/**
 * What the colours of numbers about 0, of weights, and of masks mean, and each kind of outline that is to be seen. An
 * example is marked, though nobody picked it.
 * @param {Pick<import("./matrices.js").View, "header" | "theme" | "paints" | "selected" | "example">} view
 * @returns {Legend}
 */
export function legendFor({ header, theme, paints: colours, selected, example }) {
  const { matrices, words } = header;
  const masks = matrices.some(({ mask }) => mask);
  const bar = (/** @type {number[][]} */ stops) => (/** @type {number} */ x, /** @type {number} */ y) =>
    barOf((share) => scale(share, stops), x, y + 2, SCALE, 10);
  const ring = (/** @type {keyof Paints} */ name) => (/** @type {number} */ x, /** @type {number} */ y) => {
    const box = { x: x + 1, y: y + 1, width: 11, height: 11 };
    return [/** @type {const} */ ({ kind: "frame", ...box, colour: colours[name], ...lineOf(name) })];
  };
  const isPlain = matrices.some(({ weights, mask, asked }) => !weights && !mask && !asked);
  /** @type {[there: boolean, ...mark: Legend["marks"][number]][]} */
  const all = [
    [isPlain, words.scale, bar(diverging(theme)), SCALE],
    [matrices.some(({ weights }) => weights), words.weights, bar(STOPS), SCALE],
    [masks, words.visible, bar([visible(theme), visible(theme)]), SCALE],
    [masks, words.hidden, bar([theme.masked, theme.masked]), SCALE],
    [selected !== null, example ? words.example : words.picked, ring("picked")],
    [selected !== null, words.sources, ring("sources")],
    [selected !== null, words.targets, ring("targets")],
    [selected !== null, words.further, ring("further")],
    [header.outline !== "", header.outline, ring("outlined")],
  ];
  /** @type {Legend["marks"]} */
  const marks = all.filter(([there]) => there).map(([, ...mark]) => mark);
  return { name: "", ticks: [], marks, note: "" };
}

/**
 * The parts of a symbol, in order. Only the one letter, or the brackets, after a mark are raised or lowered.
 * @param {string} symbol
 * @returns {Part[]}
 */
export function partsOf(symbol) {
  return [...symbol.matchAll(/([\^_])(?:(\w)|\(([^()]*)\))|[^^_]+|./gs)].map(([all, sign, letter, letters]) => {
    if (!sign) return { text: all, level: 0 };
    return { text: letter ?? letters.replaceAll("_", ""), level: sign === "^" ? 1 : -1 };
  });
}

/**
 * A symbol as nodes of the page.
 * @param {string} symbol
 * @returns {Node[]}
 */
export function symbolNodes(symbol) {
  return partsOf(symbol).map(({ text, level }) => {
    return level ? element(level > 0 ? "sup" : "sub", "", text) : document.createTextNode(text);
  });
}

/**
 * A symbol as a screen reader says it.
 * @param {string} symbol
 */
export function spoken(symbol) {
  return partsOf(symbol).map(({ text }) => text).join(" ");
}

/**
 * A symbol as texts of a scene, from where `look` stands, and where it ends.
 * @param {CanvasRenderingContext2D} ruler
 * @param {string} symbol
 * @param {Words & { size: number }} look of letters on the line
 * @param {string} font
 */
export function symbolOf(ruler, symbol, look, font) {
  let { x } = look;
  const items = partsOf(symbol).map(({ text, level }) => {
    const own = { ...look, text, x, y: look.y - level * look.size * 0.35, size: level ? look.size * SMALL : look.size };
    ruler.font = fontOf(own, font);
    x += ruler.measureText(text).width;
    return own;
  });
  return { items, end: x };
}

/**
 * Rows and columns, and where the colours end, but for weights and masks.
 * @param {Pick<Drawn, "matrix" | "values">} drawn
 */
export function sizeOf({ matrix, values }) {
  const size = `${matrix.rows.length} × ${matrix.columns.length}`;
  return matrix.weights || matrix.mask || matrix.asked ? size : `${size} · ±${written(largestOf(values), 2, "")}`;
}
