// Where everything of a heatmap stands, and how it looks: cells, words beside them, the colour bar.

import { boxesOf, colourOf, lookOf, marked, marksOf, paintOn, ringsOf } from "../shared/cells.js";
import { element } from "../shared/page.js";
import { legendOf, rulerOf, TICKS } from "../shared/saved.js";
import { framed, shifted } from "../shared/scene.js";
import { counted, fill, rounded } from "../shared/words.js";
import { ticks } from "./zoom.js";

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
const NUMBERED = { rows: 36, columns: 14 }; // numbers beside it

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
  const longest = (/** @type {string[]} */ texts) => {
    return Math.min(texts.reduce((most, text) => Math.max(most, ruler.measureText(text).width), 0) + 6, LABEL);
  };
  const [rows, columns] = [longest(queries.texts), longest(keys.texts)];
  const left = Math.round(AXIS + rows + 4);
  const wide = (room - left - 12) / keys.texts.length;
  const most = header.table ? wide : Math.min(wide, TALLEST / queries.texts.length);
  const cell = Math.floor(Math.max(Math.min(LARGEST, most), header.table ? 2 : header.dense ? SMALLEST : LEAST));
  const fitting = (/** @type {number} */ height) => Math.min(ROW, Math.floor(height / queries.texts.length));
  const tall = header.table ? Math.max(2, fitting(TABLE)) : header.dense ? Math.max(cell, fitting(TALLEST / 3)) : cell;
  const upright = columns + 4 > cell;
  const top = Math.round(AXIS + (upright ? columns : LETTERS + 4) + 4);
  const [across, down] = [cell * keys.texts.length, tall * queries.texts.length];
  return { left, top, cell, tall, upright, named: true, rows, columns, across, down };
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
  const [left, top] = [AXIS + rows, AXIS + columns + 4];
  return { left, top, cell, tall, upright: named, named, rows: rows - 6, columns, across, down };
}

/**
 * Where the colours end, and the largest weight of the map that counts; 0 where there is none above it.
 * @param {Pick<View, "header" | "layers" | "relative">} shown
 */
export function scaleOf({ header, layers, relative }) {
  const larger = (/** @type {number} */ most, /** @type {number} */ one) =>
    (one > most && Number.isFinite(one) ? one : most);
  const size = header.centred ? Math.abs : (/** @type {number} */ one) => one;
  const largest = header.long
    ? header.largest
    : (layers[0].values ?? new Float32Array()).reduce((found, one) => larger(found, size(one)), 0);
  return { largest, end: header.end ?? ((relative || header.centred) && largest > 0 ? largest : 1) };
}

/**
 * Everything but the ring of the keyboard: cells as one image, or as boxes for an SVG.
 * @param {Shown & { measures: Measures }} shown
 * @param {number} ratio pixels of the image for one CSS pixel; 0 for boxes
 */
export function sceneOf(shown, ratio) {
  const { header, theme, measures, pair, window, layers } = shown;
  const { values = new Float32Array() } = layers[0];
  const { left, top, cell, tall, across, down } = measures;
  const scale = scaleOf(shown);
  const image = element("canvas");
  const look = lookOf(scale.end, header.centred, theme);
  if (ratio) paintOn(image, Math.round(across * ratio), Math.round(down * ratio), window, layers, scale.largest, look);
  /** @type {Item[]} */
  const items = ratio
    ? [{ kind: "image", image, x: left, y: top, width: across, height: down }]
    : boxesOf(values, header.keys.texts.length, measures, theme, scale.end, header.centred);
  const inside = (/** @type {number[]} */ places, /** @type {number} */ side, /** @type {number} */ room) =>
    places.map((place) => place * side).filter((at) => at > 0 && at < room);
  const [above, before] = header.axis.edges;
  for (const [colour, line] of /** @type {const} */ ([["#000000", 3], ["#ffffff", 1]])) {
    const rule = /** @type {const} */ ({ kind: "rule", colour, width: line });
    for (const y of inside(above.map((row) => row - window[0]), tall, down)) {
      items.push({ ...rule, x0: left, y0: top + y, x1: left + across, y1: top + y });
    }
    for (const x of inside(before.map((column) => column - window[2]), cell, across)) {
      items.push({ ...rule, x0: left + x, y0: top, x1: left + x, y1: top + down });
    }
  }
  items.push(...labels(shown), ...bar(shown, scale));
  if (header.kind?.decided) items.push(...ringsOf(header.kind.decided, values, header.keys.texts.length, measures));
  if (pair) items.push(...around(shown, pair, theme.background, theme.text));
  return items;
}

/**
 * A frame of two colours around a cell, which is seen on any ground, however small the cell is.
 * @param {{ measures: Measures, window: import("./zoom.js").Window }} shown
 * @param {[number, number]} cell
 * @param {string} inner
 * @param {string} outer
 * @returns {Item[]}
 */
export function around({ measures: { left, top, cell, tall, across, down }, window }, [query, key], inner, outer) {
  const [width, height] = [Math.max(cell, 9), Math.max(tall, 9)];
  const x = left + (key + 0.5 - window[2]) * cell - width / 2;
  const y = top + (query + 0.5 - window[0]) * tall - height / 2;
  if (x + width < left || x > left + across || y + height < top || y > top + down) return [];
  return framed(x, y, width, height, inner, outer);
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
    else {
      const room = Math.max(cell - 2, header.long ? 60 : 0);
      items.push({ ...base, text, x: x - Math.min(cell / 2, 14) + 2, y: top - LETTERS / 2 - 4, room, bold });
    }
  }
  items.push({ ...base, text: header.axis.keys, x: left, y: AXIS / 2, room: wide, size: 13 });
  const aside = { x: AXIS / 2, y: top + down, room: down + top - AXIS, upright: true };
  items.push({ ...base, text: header.axis.queries, ...aside, size: 13 });
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
    const chosen = each > 1 ? pair?.[axis] : undefined; // those around a marked one make room for it
    const isNamed = (/** @type {number} */ order) =>
      (chosen !== undefined && Math.abs(order - chosen) < each ? order === chosen : order % each === 0);
    return [...(axis ? header.keys : header.queries).texts.entries()].filter(([order]) => isNamed(order));
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
 * What the colours mean.
 * @param {Shown & { measures: Measures }} shown
 * @param {{ largest: number, end: number }} scale
 * @returns {Item[]}
 */
function bar({ header, theme, relative, layers, measures: { left, top, down, wide } }, { largest, end }) {
  const { words, centred, unit } = header;
  const ends = largest > 0 ? fill(words.ends, { largest: rounded(largest, 3) }) : words.nothing;
  const said = !relative || centred ? "" : ends;
  const y = top + down + BAR.gap;
  const weightOf = (/** @type {number} */ share) => (centred ? 2 * share - 1 : share) * end;
  /** @type {import("../shared/saved.js").Legend} */
  const legend = {
    name: "",
    colour: (share) => colourOf(weightOf(share), end, centred, theme),
    ticks: TICKS.map(([, share]) => [rounded(weightOf(share), 3), share]),
    marks: marksOf(marked(layers), words, theme),
    note: "",
  };
  const { items } = legendOf(rulerOf(), legend, wide, theme, wide);
  /** @type {Item} */
  const name = {
    kind: "text", text: [unit, said].filter(Boolean).join(" · "), x: left, y: y + BAR.line / 2, room: wide,
    align: "left", colour: theme.text, size: LETTERS,
  };
  return [name, ...items.map((item) => shifted(item, left, y + BAR.line))];
}
