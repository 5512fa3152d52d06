// Where everything of a heatmap stands, and how it looks: cells, words beside them, the colour bar.

import { NAN, scale } from "../shared/colours.js";
import { element, pen } from "../shared/page.js";
import { fill } from "../shared/words.js";

const LARGEST = 48; // CSS pixels along a cell's side where there are few
const LEAST = 15; // and where there are many: wider maps scroll
const SMALLEST = 3; // of a dense map
const ROW = 24; // CSS pixels of a row where cells have shrunk and rows are few
const TALLEST = 560; // of all rows
const LABEL = 140; // the longest label
const LETTERS = 12;
const AXIS = 20; // an axis title's line
const BAR = { gap: 10, line: 17, tall: 12, ticks: 18, steps: 64 };
const FEWEST = 240; // CSS pixels that the colour bar takes at least

/** @typedef {import("../shared/scene.js").Item} Item */
/** @typedef {Pick<import("./heatmap.js").View, "header" | "weights" | "theme">} Shown */
/** @typedef {ReturnType<typeof measuresOf>} Measures */

/**
 * The place of the cells' upper left corner, a cell's width and height (`tall`), and the size of it all, in a room of this width.
 * @param {Shown} shown
 * @param {number} room
 */
export function measuresOf({ header, theme }, room) {
  const { queries, keys } = header.choice.kind;
  const ruler = pen(element("canvas"));
  ruler.font = `600 ${LETTERS}px ${theme.font}`;
  const longest = (/** @type {string[]} */ texts) => Math.min(Math.max(...texts.map((text) => ruler.measureText(text).width)) + 6, LABEL);
  const [rows, columns] = [longest(queries.texts), longest(keys.texts)];
  const left = Math.round(AXIS + rows + 4);
  const wide = (room - left - 12) / keys.texts.length;
  const cell = Math.floor(Math.max(Math.min(LARGEST, wide, TALLEST / queries.texts.length), header.dense ? SMALLEST : LEAST));
  const tall = header.dense ? Math.max(cell, Math.min(ROW, Math.floor(TALLEST / 3 / queries.texts.length))) : cell;
  const upright = columns + 4 > cell;
  const top = Math.round(AXIS + (upright ? columns : LETTERS + 4) + 4);
  const [across, down] = [cell * keys.texts.length, tall * queries.texts.length];
  const width = left + Math.max(across, FEWEST) + 12;
  return { left, top, cell, tall, upright, rows, columns, across, down, width, height: top + down + BAR.gap + BAR.line + BAR.tall + BAR.ticks };
}

/**
 * The largest weight here that counts, which a relative scale ends at; 0 where there is none above it.
 * @param {Float32Array} weights
 */
export function largestOf(weights) {
  return weights.reduce((largest, weight) => (weight > largest ? weight : largest), 0);
}

/**
 * Everything but the ring of the keyboard.
 * @param {Shown & { measures: Measures }} shown
 */
export function sceneOf({ header, weights, theme, measures }) {
  const { kind, relative, pair } = header.choice;
  const { left, top, cell, tall, across, down } = measures;
  const largest = largestOf(weights);
  const end = relative && largest > 0 ? largest : 1;
  /** @type {Item[]} */
  const items = [];
  weights.forEach((weight, at) => {
    const x = left + (at % kind.keys.texts.length) * cell;
    const y = top + Math.floor(at / kind.keys.texts.length) * tall;
    const colour = weight < 0 ? rgb(theme.masked) : Number.isNaN(weight) ? NAN : rgb(scale(weight / end));
    items.push({ kind: "box", x, y, width: cell, height: tall, colour });
    if (weight < 0) items.push({ kind: "rule", x0: x, y0: y + tall, x1: x + cell, y1: y, colour: rgb(theme.hatch), width: 1 });
  });
  const [above, before] = header.axis.edges;
  for (const [colour, width] of /** @type {const} */ ([["#000000", 3], ["#ffffff", 1]])) {
    items.push(...above.map((row) => rule(left, top + row * tall, left + across, top + row * tall, colour, width)));
    items.push(...before.map((column) => rule(left + column * cell, top, left + column * cell, top + down, colour, width)));
  }
  items.push(...labels(header, theme, measures), ...bar(header, theme, measures, largest, end));
  if (pair) items.push(...around(measures, pair, theme.background, theme.text));
  return items;
}

/**
 * The ring where the keyboard stands.
 * @param {Pick<import("./heatmap.js").View, "measures" | "current">} view
 * @param {boolean} isSeen
 */
export function ringOf({ measures, current }, isSeen) {
  return isSeen ? around(measures, current, "#ffffff", "#000000") : [];
}

/**
 * A frame of two colours around a cell, which is seen on any ground.
 * @param {Measures} measures
 * @param {[number, number]} cell
 * @param {string} inner
 * @param {string} outer
 * @returns {Item[]}
 */
function around({ left, top, cell, tall }, [query, key], inner, outer) {
  const [x, y] = [left + key * cell, top + query * tall];
  return [
    { kind: "frame", x, y, width: cell, height: tall, colour: outer, line: 4 },
    { kind: "frame", x, y, width: cell, height: tall, colour: inner, line: 1.5 },
  ];
}

/**
 * @param {number} x0
 * @param {number} y0
 * @param {number} x1
 * @param {number} y1
 * @param {string} colour
 * @param {number} width
 * @returns {Item}
 */
function rule(x0, y0, x1, y1, colour, width) {
  return { kind: "rule", x0, y0, x1, y1, colour, width };
}

/**
 * @param {import("./heatmap.js").Header} header
 * @param {import("../shared/colours.js").Theme} theme
 * @param {Measures} measures
 */
function labels(header, theme, measures) {
  const { kind, pair } = header.choice;
  const { left, top, cell, tall, upright, rows, columns, across, down } = measures;
  /** @type {Pick<import("../shared/scene.js").Words, "kind" | "colour" | "size" | "align">} */
  const base = { kind: "text", colour: theme.text, size: LETTERS, align: "left" };
  /** @type {Item[]} */
  const items = [];
  kind.queries.texts.forEach((text, order) => {
    if (!isNamed(order, tall, pair?.[0])) return;
    const y = top + (order + 0.5) * tall;
    items.push({ ...base, text, x: left - 5, y, room: rows, align: "right", bold: pair?.[0] === order });
  });
  kind.keys.texts.forEach((text, order) => {
    if (!isNamed(order, cell, pair?.[1])) return;
    const bold = pair?.[1] === order;
    const x = left + (order + 0.5) * cell;
    if (upright) items.push({ ...base, text, x, y: top - 5, room: columns, bold, upright });
    else items.push({ ...base, text, x: x - cell / 2 + 2, y: top - LETTERS / 2 - 4, room: cell - 2, bold });
  });
  items.push({ ...base, text: header.axis.keys, x: left, y: AXIS / 2, room: Math.max(across, FEWEST), size: 13 });
  items.push({ ...base, text: header.axis.queries, x: AXIS / 2, y: top + down, room: down + top - AXIS, size: 13, upright: true });
  return items;
}

/**
 * Whether there is room to name a row or column: all where cells are large, else every few, and those around a marked one
 * make room for it.
 * @param {number} order
 * @param {number} side
 * @param {number | undefined} marked
 */
function isNamed(order, side, marked) {
  const each = side < LETTERS ? Math.ceil((LETTERS + 2) / side) : 1;
  if (marked !== undefined && each > 1 && Math.abs(order - marked) < each) return order === marked;
  return order % each === 0;
}

/**
 * What the colours mean.
 * @param {import("./heatmap.js").Header} header
 * @param {import("../shared/colours.js").Theme} theme
 * @param {Measures} measures
 * @param {number} largest
 * @param {number} end
 */
function bar({ words, choice }, theme, { left, top, across, down }, largest, end) {
  const wide = Math.max(across, FEWEST);
  const y = top + down + BAR.gap;
  const said = !choice.relative ? "" : largest > 0 ? fill(words.ends, { largest: threeDigits(largest) }) : words.nothing;
  /** @type {Item[]} */
  const items = [{ kind: "text", text: [words.unit, said].filter(Boolean).join(" · "), x: left, y: y + BAR.line / 2, room: wide, align: "left", colour: theme.text, size: LETTERS }];
  for (let step = 0; step < BAR.steps; step++) {
    const x = left + (wide * step) / BAR.steps;
    items.push({ kind: "box", x, y: y + BAR.line, width: wide / BAR.steps + 0.5, height: BAR.tall, colour: rgb(scale(step / (BAR.steps - 1))) });
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const text = threeDigits(share * end);
    const ruler = pen(element("canvas"));
    ruler.font = `11px ${theme.font}`;
    const half = ruler.measureText(text).width / 2;
    const x = left + Math.min(Math.max(wide * share - half, 0), wide - 2 * half);
    items.push({ kind: "text", text, x, y: y + BAR.line + BAR.tall + 10, room: 60, align: "left", colour: theme.text, size: 11 });
  }
  return items;
}

/** @param {number} number */
function threeDigits(number) {
  return String(Number(number.toPrecision(3)));
}

/** @param {number[]} channels */
function rgb(channels) {
  return `rgb(${channels.join(" ")})`;
}
