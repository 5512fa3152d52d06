// One panel of an alignment: where everything lies, its words and cells, what is marked in it, and what colours mean.

import { boxesOf, marksOf, ringsOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { TICKS } from "../../../transformer/plots/canvas/shared/saved.js";
import { decidedIn, framed } from "../../../transformer/plots/canvas/shared/scene.js";

const FONT = 12;
const LABEL = { row: 110, column: 128 }; // pixels for a label, at most
const CELL = { narrow: 12, wide: 44, least: 3, tall: 22, low: 12 };
const ABREAST = 480; // from this width on, panels stand side by side, if every source word has its room there
export const GAP = 24;
const BAR = 14; // room below the cells for the marked source words' bars
export const PALE = 0.65; // how strong other labels are while a word is in focus
const STRONG = 0.1; // from this weight on, a source word counts as looked at

/** @typedef {import("../../../transformer/plots/canvas/shared/colours.js").Theme} Theme */
/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Item} Item */
/** @typedef {import("./alignments.js").Header} Header */
/** @typedef {ReturnType<typeof layoutOf>} Layout */

/**
 * What is drawn of one panel: `weights` are `MASKED` where there is no such key, `decided` the source word that decides
 * each row (-1: none), `focused` is the row in focus if it is this panel's, `looked` what the word in focus looked at.
 * @typedef {object} Drawn
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {import("../../../transformer/plots/canvas/shared/cells.js").Decided} decided
 * @property {Float32Array} weights
 * @property {Layout} layout
 * @property {Theme} theme
 * @property {number | null} focused
 * @property {Float32Array | null} looked
 */

/**
 * Where everything lies, in CSS pixels; the same for all panels, so that the source axes line up.
 * @param {Header} header
 * @param {number} moment
 * @param {Theme} theme
 * @param {number} width
 * @param {CanvasRenderingContext2D} ruler
 */
export function layoutOf({ columns, moments }, moment, theme, width, ruler) {
  const count = moments[moment].panels.length;
  ruler.font = `600 ${FONT}px ${theme.font}`;
  const widest = (/** @type {string[]} */ texts) =>
    texts.reduce((most, label) => Math.max(most, ruler.measureText(label).width), 0);
  const panels = moments.flatMap((one) => one.panels);
  const names = Math.ceil(widest(panels.flatMap((panel) => panel.rows))) + 10;
  const left = Math.min(names, LABEL.row, Math.round(width / 3));
  const roomOf = (/** @type {number} */ number) => (width - (number - 1) * GAP) / number - left - 4;
  const abreast = width >= ABREAST && roomOf(count) >= columns.length * CELL.narrow ? count : 1;
  const cell = Math.min(Math.max(Math.floor(roomOf(abreast) / columns.length), CELL.least), CELL.wide);
  const upright = widest(columns) + 6 > cell;
  const top = upright ? Math.min(Math.ceil(widest(columns)) + 10, LABEL.column) : 22;
  const many = panels.some(({ rows }) => rows.length > 40);
  return { abreast, left, top, cell, tall: many ? CELL.low : CELL.tall, upright };
}

/**
 * How large a panel's picture is, in CSS pixels.
 * @param {Layout} layout
 * @param {number} rows
 * @param {number} columns
 */
export function sizeOf(layout, rows, columns) {
  return { wide: layout.left + columns * layout.cell + 4, tall: layout.top + rows * layout.tall + BAR };
}

/**
 * A panel's picture, its upper left corner at the origin.
 * @param {Drawn} drawn
 * @returns {Item[]}
 */
export function sceneOf(drawn) {
  const { columns, weights, decided, layout, theme, looked } = drawn;
  const cells = boxesOf(weights, columns.length, layout, theme);
  const rings = ringsOf(decided, weights, columns.length, layout);
  return [...cells, ...labels(drawn), ...(looked ? marks(drawn, looked) : []), ...rings];
}

/**
 * The words: those that belong to what is in focus are bold, others paler then. Of narrow columns every few are named.
 * @param {Drawn} drawn
 * @returns {Item[]}
 */
function labels({ rows, columns, layout: { left, top, cell, tall, upright }, theme, focused, looked }) {
  const look = (/** @type {boolean} */ on) => (
    { bold: on, size: FONT, colour: theme.text, alpha: looked && !on ? PALE : 1 }
  );
  const each = Math.ceil(FONT / cell);
  const named = columns.map((text, column) => ({ text, column, on: Boolean(looked && looked[column] >= STRONG) }));
  return [
    ...rows.map((text, row) => /** @type {Item} */ ({
      kind: "text", text, x: left - 6, y: top + (row + 0.5) * tall, room: left - 10, align: "right",
      ...look(row === focused),
    })),
    ...named.filter(({ column }) => column % each === 0).map(({ text, column, on }) => /** @type {Item} */ ({
      kind: "text", text, align: "left", upright, ...look(on),
      ...(upright
        ? { x: left + (column + 0.5) * cell, y: top - 6, room: top - 10 }
        : { x: left + column * cell + 3, y: top - 12, room: cell - 3 }),
    })),
  ];
}

/**
 * The row in focus, the columns of the source words that it looked at, and a bar below each, as long as its weight is
 * large.
 * @param {Drawn} drawn
 * @param {Float32Array} looked
 * @returns {Item[]}
 */
function marks({ rows, columns, layout: { left, top, cell, tall }, theme, focused }, looked) {
  const below = top + rows.length * tall;
  const at = (/** @type {number} */ column) => left + column * cell;
  /** @type {Item[]} */
  const items = [];
  looked.forEach((weight, column) => {
    if (weight >= STRONG) {
      const size = { width: cell - 1, height: below - top - 1 };
      items.push({ kind: "frame", x: at(column) + 0.5, y: top + 0.5, ...size, colour: "#ffffff", line: 1 });
    }
    if (weight > 0.005) {
      const height = Math.max(1, (BAR - 3) * weight);
      items.push({ kind: "box", x: at(column) + 1, y: below + 2, width: cell - 2, height, colour: theme.primary });
    }
  });
  if (focused === null) return items;
  return [...items, ...framed(left, top + focused * tall, columns.length * cell, tall, "#ffffff")];
}

/**
 * What the colours mean.
 * @param {Header} header
 * @param {number} moment
 * @param {Theme} theme
 * @returns {import("../../../transformer/plots/canvas/shared/saved.js").Legend}
 */
export function legendFor({ masked, moments, words }, moment, theme) {
  const found = marksOf({ masked }, { masked: words.nowhere, nan: "" }, theme);
  if (moments[moment].panels.some(({ decided }) => decided.length)) {
    found.push([words.decided, (x, y, side) => decidedIn(x, y, side, side)]);
  }
  return { name: words.weight, ticks: TICKS, marks: found, note: "" };
}
