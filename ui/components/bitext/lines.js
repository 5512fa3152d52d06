// The lines between two sentences: which are drawn, where they run, how strong they look.

import { agrees } from "../../../transformer/plots/canvas/shared/decided.js";

const LEAST = 0.04; // weight of the thinnest line
const MANY = 24; // written words from which on only strong lines are drawn while no word is in focus
const STRONG = 0.25;
const LINES = 1500; // at most

/** @typedef {"target" | "source"} Side */

/** @typedef {{ side: Side, index: number }} Position */

/** @typedef {Pick<import("./bitext.js").View, "header" | "weights">} Shown */

/**
 * The weight of a pair; below 0 where it is masked.
 * @param {Shown} view
 * @param {number} query
 * @param {number} key
 */
export function weightOf({ header, weights }, query, key) {
  return weights[query * header.shape[1] + key];
}

/**
 * The words across from a position with their weights, the strongest first; what is masked or no number is left out.
 * @param {Shown} view
 * @param {Position} position
 */
export function across(view, { side, index }) {
  const count = view.header.shape[side === "target" ? 1 : 0];
  const all = Array.from({ length: count }, (_, other) => ({
    index: other,
    weight: side === "target" ? weightOf(view, index, other) : weightOf(view, other, index),
  }));
  return all.filter(({ weight }) => weight >= 0).sort((a, b) => b.weight - a.weight);
}

/** @typedef {{ query: number, key: number, weight: number }} Line */

/** @typedef {{ left: number, top: number, width: number, height: number }} Box */

/**
 * The lines to draw, the strongest last: all of them, or those of the word in focus.
 * @param {Shown} view
 * @param {Position | null} focus
 * @returns {Line[]}
 */
export function chosen(view, focus) {
  const rows = Array.from({ length: view.header.shape[0] }, (_, query) => query);
  const least = rows.length > MANY && !focus ? STRONG : LEAST;
  const lines = rows.flatMap((query) =>
    across(view, { side: "target", index: query }).map(({ index, weight }) => ({ query, key: index, weight })),
  );
  return lines.filter((line) => line.weight >= least && belongs(line, focus)).sort((a, b) => a.weight - b.weight).slice(-LINES);
}

/**
 * The dotted lines: from each written word that a source word decides to that one, where it is not looked at most.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function dotted(view, focus) {
  const lines = view.header.decided.map(([key], query) => ({ query, key }));
  return lines.filter((line) => line.key >= 0 && !agrees(rowOf(view, line.query), line.key) && belongs(line, focus));
}

/**
 * The weights of a written word.
 * @param {Shown} view
 * @param {number} query
 */
export function rowOf({ header, weights }, query) {
  return weights.subarray(query * header.shape[1], (query + 1) * header.shape[1]);
}

/**
 * The position of the largest weight, the first of equal ones.
 * @param {ArrayLike<number>} row
 */
export function strongest(row) {
  return Array.from(row).reduce((best, weight, at) => (weight > row[best] || Number.isNaN(row[best]) ? at : best), 0);
}

/**
 * Whether a line is one of the word in focus, where there is one.
 * @param {{ query: number, key: number }} line
 * @param {Position | null} focus
 */
function belongs({ query, key }, focus) {
  return !focus || (focus.side === "target" ? query : key) === focus.index;
}

/**
 * The path of a line from under a source word to above a written one.
 * @param {Box} source
 * @param {Box} target
 */
export function pathOf(source, target) {
  const [x0, y0] = [source.left + source.width / 2, source.top + source.height];
  const [x1, y1] = [target.left + target.width / 2, target.top];
  const bend = (y1 - y0) / 2;
  return `M${x0} ${y0}C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`;
}

/**
 * How strong a line of this weight looks; fainter while none is in focus, since then all are there.
 * @param {number} weight
 * @param {boolean} focused
 */
export function strength(weight, focused) {
  return { width: 1 + 4 * weight, opacity: Math.min(1, (focused ? 0.25 : 0.08) + (focused ? 0.75 : 0.62) * weight) };
}

/** How a dotted line looks. */
export const DOTS = { width: 3, opacity: 0.85, dash: [0.1, 7] };
