// Where everything of a heatmap stands, and how it looks: cells, words beside them, the colour bar.

import { boxesOf, colourOf, lookOf, marked, marksOf, paintOn } from "../shared/cells.js";
import { inkOn } from "../shared/colours.js";
import { ringsOf } from "../shared/decided.js";
import { element } from "../shared/page.js";
import { legendOf, rulerOf, TICKS } from "../shared/saved.js";
import { shifted } from "../shared/scene.js";
import { counted, fill } from "../shared/words.js";
import { ticks } from "./window.js";

const LARGEST = 48; // CSS pixels along a cell's side where there are few
const LEAST = 15; // and where there are many: wider maps scroll
const SMALLEST = 3; // of a dense map
const ROW = 24; // CSS pixels of a row where cells have shrunk and rows are few
const TALLEST = 560; // of all rows
const TABLE = 320; // and of those of a table, whose cells need not be square
const LABEL = 140; // the longest label
const LETTERS = 12;
const AXIS = 20; // an axis title's line
const BAR = { gap: 10, line: 17, tall: 32, marks: 20 };
const FEWEST = 240; // CSS pixels that the colour bar takes at least, where there is room
const NAMED = { cell: 13, rows: 98, columns: 72 }; // of a long map: a cell that is named, and what names take
const NUMBERED = { rows: 36, columns: 14, wide: 36, tall: 16 }; // numbers beside it; a cell with its weight in it

/** @typedef {import("../shared/scene.js").Item} Item */
/** @typedef {import("./heatmap.js").View} View */
/** @typedef {Pick<View, "header" | "theme" | "layers" | "window" | "pair" | "relative">} Shown */
/** @typedef {{ left: number, top: number, cell: number, tall: number, upright: boolean, named: boolean, rows: number,
 *   columns: number, across: number, down: number, wide: number, width: number, height: number }} Measures
 * The place of the cells' upper left corner, a cell's width and height (`tall`), the room of row and column names, the
 * size of all cells, how wide the colour bar is, and the size of everything. */

/**
 * @param {Shown} shown
 * @param {number} room CSS pixels
 * @returns {Measures}
 */
export function measuresOf(shown, room) {
  const { left, top, across, down, ...found } = shown.header.long ? windowed(shown, room) : whole(shown, room);
  const { masked, nan } = marked(shown.layers);
  const wide = Math.max(across, Math.min(FEWEST, room - left - 12));
  const width = left + wide + 12;
  const height = top + down + BAR.gap + BAR.line + BAR.tall + (masked || nan ? BAR.marks : 0);
  return { left, top, across, down, wide, ...found, width, height };
}

/**
 * A map of which every cell is seen.
 * @param {Shown} shown
 * @param {number} room
 */
function whole({ header, theme }, room) {
  const { queries, keys } = header;
  const ruler = rulerOf();
  ruler.font = `600 ${LETTERS}px ${theme.font}`;
  const longest = (/** @type {string[]} */ texts) => Math.min(texts.reduce((most, text) => Math.max(most, ruler.measureText(text).width), 0) + 6, LABEL);
  const [rows, columns] = [longest(queries.texts), longest(keys.texts)];
  const left = Math.round(AXIS + rows + 4);
  const wide = (room - left - 12) / keys.texts.length;
  const most = header.table ? wide : Math.min(wide, TALLEST / queries.texts.length);
  const cell = Math.floor(Math.max(Math.min(LARGEST, most), header.table ? 2 : header.dense ? SMALLEST : LEAST));
  const fitting = (/** @type {number} */ height) => Math.min(ROW, Math.floor(height / queries.texts.length));
  const tall = header.table ? Math.max(2, fitting(TABLE)) : header.dense ? Math.max(cell, fitting(TALLEST / 3)) : cell;
  const upright = columns + 4 > cell;
  const top = Math.round(AXIS + (upright ? columns : LETTERS + 4) + 4);
  return { left, top, cell, tall, upright, named: true, rows, columns, across: cell * keys.texts.length, down: tall * queries.texts.length };
}

/**
 * A long map, of which a window is seen.
 * @param {Shown} shown
 * @param {number} room
 */
function windowed({ header, window: [above, bottom, before, right], layers }, room) {
  const { shape } = header;
  const map = Math.max(120, room - AXIS - NUMBERED.rows - 12);
  const down = Math.min(TALLEST, Math.max(90, Math.round(map * Math.min(1, shape[0] / shape[1]))));
  const few = shape[0] <= 40 || down / (bottom - above) >= NAMED.cell;
  const named = Boolean(layers.at(-1)?.queries?.length) && few && map / (right - before) >= NAMED.cell && room > 360;
  const { rows, columns } = named ? NAMED : NUMBERED;
  const across = Math.max(120, room - AXIS - rows - 12);
  const [cell, tall] = [across / (right - before), down / (bottom - above)];
  return { left: AXIS + rows, top: AXIS + columns + 4, cell, tall, upright: named, named, rows: rows - 6, columns, across, down };
}

/**
 * Where the colours end, and the largest weight of the map that counts; 0 where there is none above it.
 * @param {Pick<View, "header" | "layers" | "relative">} shown
 */
export function scaleOf({ header, layers, relative }) {
  const larger = (/** @type {number} */ most, /** @type {number} */ one) => (one > most && Number.isFinite(one) ? one : most);
  const size = header.centred ? Math.abs : (/** @type {number} */ one) => one;
  const largest = header.long ? header.largest : (layers[0].values ?? new Float32Array()).reduce((found, one) => larger(found, size(one)), 0);
  return { largest, end: header.end ?? ((relative || header.centred) && largest > 0 ? largest : 1) };
}

/**
 * Everything but the ring of the keyboard: cells as one image, or as boxes for an SVG.
 * @param {Shown & { measures: Measures }} shown
 * @param {number} ratio pixels of the image for one CSS pixel; 0 for boxes
 */
export function sceneOf(shown, ratio) {
  const { header, theme, measures, pair, window, layers: [{ values = new Float32Array() }] } = shown;
  const { left, top, cell, tall, across, down } = measures;
  const scale = scaleOf(shown);
  /** @type {Item[]} */
  const items = ratio ? [cellsAt(shown, ratio, scale)] : boxesOf(values, header.keys.texts.length, measures, theme, scale.end, header.centred);
  const inside = (/** @type {number[]} */ places, /** @type {number} */ side, /** @type {number} */ room) => places.map((place) => place * side).filter((at) => at > 0 && at < room);
  const [above, before] = header.axis.edges;
  for (const [colour, line] of /** @type {const} */ ([["#000000", 3], ["#ffffff", 1]])) {
    const rule = /** @type {const} */ ({ kind: "rule", colour, width: line });
    for (const y of inside(above.map((row) => row - window[0]), tall, down)) items.push({ ...rule, x0: left, y0: top + y, x1: left + across, y1: top + y });
    for (const x of inside(before.map((column) => column - window[2]), cell, across)) items.push({ ...rule, x0: left + x, y0: top, x1: left + x, y1: top + down });
  }
  items.push(...numbers(shown, scale.end), ...labels(shown), ...bar(shown, scale));
  if (header.kind?.decided) items.push(...ringsOf(header.kind.decided, values, header.keys.texts.length, measures));
  if (pair) items.push(...around(shown, pair, theme.background, theme.text));
  return items;
}

/**
 * @param {Shown & { measures: Measures }} shown
 * @param {number} ratio
 * @param {{ largest: number, end: number }} scale
 * @returns {Item}
 */
function cellsAt({ header, theme, window, layers, measures: { left, top, across, down } }, ratio, { largest, end }) {
  const image = element("canvas");
  paintOn(image, Math.round(across * ratio), Math.round(down * ratio), window, layers, largest, lookOf(end, header.centred, theme));
  return { kind: "image", image, x: left, y: top, width: across, height: down };
}

/**
 * Weights of a long map in cells that have room for them.
 * @param {Shown & { measures: Measures }} shown
 * @param {number} end
 */
function numbers({ header, theme, layers, window, measures: { left, top, cell, tall, across, down } }, end) {
  const part = layers.at(-1);
  /** @type {Item[]} */
  const items = [];
  if (!header.long || !part?.values || cell < NUMBERED.wide || tall < NUMBERED.tall) return items;
  const columns = part.columns[1] - part.columns[0];
  part.values.forEach((value, at) => {
    const x = left + (part.columns[0] + (at % columns) - window[2]) * cell;
    const y = top + (part.rows[0] + Math.floor(at / columns) + 0.5 - window[0]) * tall;
    if (!Number.isFinite(value) || x < left || x + cell > left + across + 1 || y < top || y > top + down) return;
    const colour = inkOn(colourOf(value, end, header.centred, theme));
    items.push({ kind: "text", text: short(value), x: x + 3, y, room: cell, align: "left", colour, size: 11 });
  });
  return items;
}

/**
 * A weight in at most six characters.
 * @param {number} value
 */
export function short(value) {
  return value === 0 || value >= 0.0005 ? value.toFixed(3) : value.toExponential(0);
}

/**
 * The ring where the keyboard stands.
 * @param {View} view
 * @param {boolean} isSeen
 */
export function ringOf(view, isSeen) {
  return isSeen ? around(view, view.current, "#ffffff", "#000000") : [];
}

/**
 * A frame of two colours around a cell, which is seen on any ground, however small the cell is.
 * @param {{ measures: Measures, window: import("./window.js").Window }} shown
 * @param {[number, number]} cell
 * @param {string} inner
 * @param {string} outer
 * @returns {Item[]}
 */
function around({ measures: { left, top, cell, tall, across, down }, window }, [query, key], inner, outer) {
  const [width, height] = [Math.max(cell, 9), Math.max(tall, 9)];
  const x = left + (key + 0.5 - window[2]) * cell - width / 2;
  const y = top + (query + 0.5 - window[0]) * tall - height / 2;
  if (x + width < left || x > left + across || y + height < top || y > top + down) return [];
  return [
    { kind: "frame", x, y, width, height, colour: outer, line: 4 },
    { kind: "frame", x, y, width, height, colour: inner, line: 1.5 },
  ];
}

/** @param {Shown & { measures: Measures }} shown */
function labels(shown) {
  const { header, theme, pair, window } = shown;
  const { left, top, cell, tall, upright, rows, columns, down, wide } = shown.measures;
  /** @type {Pick<import("../shared/scene.js").Words, "kind" | "colour" | "size" | "align">} */
  const base = { kind: "text", colour: theme.text, size: LETTERS, align: "left" };
  /** @type {Item[]} */
  const items = [];
  for (const [order, text] of namesOf(shown, 0)) {
    const y = top + (order + 0.5 - window[0]) * tall;
    items.push({ ...base, text, x: left - 5, y, room: rows, align: "right", bold: pair?.[0] === order });
  }
  for (const [order, text] of namesOf(shown, 1)) {
    const bold = pair?.[1] === order;
    const x = left + (order + 0.5 - window[2]) * cell;
    if (upright) items.push({ ...base, text, x, y: top - 5, room: columns, bold, upright });
    else items.push({ ...base, text, x: x - Math.min(cell / 2, 14) + 2, y: top - LETTERS / 2 - 4, room: Math.max(cell - 2, header.long ? 60 : 0), bold });
  }
  items.push({ ...base, text: header.axis.keys, x: left, y: AXIS / 2, room: wide, size: 13 });
  items.push({ ...base, text: header.axis.queries, x: AXIS / 2, y: top + down, room: down + top - AXIS, size: 13, upright: true });
  return items;
}

/**
 * The rows (or columns) that there is room to name: all where cells are large, else every few; of a long map some by
 * their numbers.
 * @param {Shown & { measures: Measures }} shown
 * @param {0 | 1} axis
 * @returns {[number, string][]}
 */
function namesOf({ header, layers, pair, window, measures }, axis) {
  const side = axis ? measures.cell : measures.tall;
  if (!header.long) {
    const each = side < LETTERS ? Math.ceil((LETTERS + 2) / side) : 1;
    return [...(axis ? header.keys : header.queries).texts.entries()].filter(([order]) => isNamed(order, each, pair?.[axis]));
  }
  const part = layers.at(-1);
  const [names, first] = (axis ? [part?.keys, part?.columns[0]] : [part?.queries, part?.rows[0]]);
  const [from, to] = axis ? [window[2], window[3]] : [window[0], window[1]];
  const apart = measures.named ? 0.99 * side : axis ? 54 : 26;
  return ticks(from, to, side * (to - from), apart)
    .filter((order) => order + 0.5 > from && order + 0.5 < to)
    .map((order) => [order, (measures.named && names?.[order - (first ?? 0)]) || counted(order + 1)]);
}

/**
 * Whether a row or column is named where every few are: those around a marked one make room for it.
 * @param {number} order
 * @param {number} each
 * @param {number | undefined} chosen
 */
function isNamed(order, each, chosen) {
  if (chosen !== undefined && each > 1 && Math.abs(order - chosen) < each) return order === chosen;
  return order % each === 0;
}

/**
 * What the colours mean.
 * @param {Shown & { measures: Measures }} shown
 * @param {{ largest: number, end: number }} scale
 * @returns {Item[]}
 */
function bar({ header, theme, relative, layers, measures: { left, top, down, wide } }, { largest, end }) {
  const { words, centred, unit } = header;
  const said = !relative || centred ? "" : largest > 0 ? fill(words.ends, { largest: threeDigits(largest) }) : words.nothing;
  const y = top + down + BAR.gap;
  const weightOf = (/** @type {number} */ share) => (centred ? 2 * share - 1 : share) * end;
  /** @type {import("../shared/saved.js").Legend} */
  const legend = {
    name: "",
    colour: (share) => colourOf(weightOf(share), end, centred, theme),
    ticks: TICKS.map(([, share]) => [threeDigits(weightOf(share)), share]),
    marks: marksOf(marked(layers), words, theme),
    note: "",
  };
  const { items } = legendOf(rulerOf(), legend, wide, theme, wide);
  /** @type {Item} */
  const name = { kind: "text", text: [unit, said].filter(Boolean).join(" · "), x: left, y: y + BAR.line / 2, room: wide, align: "left", colour: theme.text, size: LETTERS };
  return [name, ...items.map((item) => shifted(item, left, y + BAR.line))];
}

/** @param {number} number */
function threeDigits(number) {
  return String(Number(number.toPrecision(3)));
}
