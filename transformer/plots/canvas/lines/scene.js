// The lines between two sequences of words: which are drawn, where, and in which colours.

import { decidedElsewhere, rowOf } from "../shared/cells.js";
import { headColour, NAN } from "../shared/colours.js";

const LEAST = 0.04; // weight of the thinnest line
const STRONG = { from: 24, least: 0.25 }; // so many queries show strong lines alone while no word is in focus
const LINES = 1500; // at most
const LANES = 14; // CSS pixels over which the lines of several heads spread at a token

/** @typedef {import("./lines.js").View} View */
/** @typedef {"query" | "key"} Side */
/** @typedef {{ side: Side, index: number }} Position A word. */
/** @typedef {{ head: number, query: number, key: number, weight: number }} Line */
/** @typedef {import("../shared/scene.js").Item} Item */
/** @typedef {Pick<View, "header" | "weights"> & Partial<Pick<View, "all" | "columns">>} Shown */

/**
 * The weights between a word and each word across.
 * @param {Shown} view
 * @param {Position} position
 */
export function weightsAcross({ header: { shape: [queries, keys] }, weights }, { side, index }) {
  if (side === "query") return rowOf(weights, keys, index);
  return Float32Array.from({ length: queries }, (_, query) => weights[query * keys + index]);
}

/**
 * The words across from a position with their weights, the strongest first; what is masked or no number is left out.
 * @param {Shown} view
 * @param {Position} position
 */
export function across(view, position) {
  const all = Array.from(weightsAcross(view, position), (weight, index) => ({ index, weight }));
  return all.filter(({ weight }) => weight >= 0).sort((a, b) => b.weight - a.weight);
}

/**
 * The weight from which on a line is drawn.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function leastOf({ header: { shape: [queries] } }, focus) {
  return queries > STRONG.from && !focus ? STRONG.least : LEAST;
}

/**
 * Whether a line is one of the word in focus, where there is one.
 * @param {{ query: number, key: number }} line
 * @param {Position | null} focus
 */
function belongs(line, focus) {
  return !focus || line[focus.side] === focus.index;
}

/**
 * The lines to draw, the strongest last, those that are no number before them: all, or those of the word in focus.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function chosen(view, focus) {
  const [queries, keys] = view.header.shape;
  const least = leastOf(view, focus);
  /** @type {Line[]} */
  const lines = [];
  (view.all ?? view.weights).forEach((weight, at) => {
    if (weight < least) return;
    const [head, query] = [Math.floor(at / (queries * keys)), Math.floor(at / keys) % queries];
    const line = { head, query, key: at % keys, weight };
    if (belongs(line, focus)) lines.push(line);
  });
  const rank = (/** @type {Line} */ { weight }) => (Number.isNaN(weight) ? 0 : weight);
  return lines.sort((a, b) => rank(a) - rank(b)).slice(-LINES);
}

/**
 * The dotted lines: from each query that a key decides to that one, where one head is shown that looks at another most.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function dotted({ header, weights, all }, focus) {
  if (all) return [];
  return decidedElsewhere(header.decided, weights, header.shape[1]).filter((line) => belongs(line, focus));
}

/**
 * All lines, in the sheet's own coordinates: from under a key to above a query, or from a query across to a key. They
 * grow with their weight, and are fainter while no word is in focus, since then all are there.
 * @param {Shown & Pick<View, "focus" | "boxes" | "theme">} view
 * @returns {Item[]}
 */
export function sceneOf(view) {
  const { header: { shape: [queries, keys] }, focus, boxes, theme, columns, all } = view;
  const heads = all ? all.length / (queries * keys) : 1;
  const line = (/** @type {{ query: number, key: number, head?: number }} */ { query, key, head = 0 }) => {
    const [source, target] = [boxes.key[key], boxes.query[query]];
    if (!columns) {
      const from = { x0: source.left + source.width / 2, y0: source.top + source.height };
      const to = { x1: target.left + target.width / 2, y1: target.top };
      return /** @type {const} */ ({ kind: "line", down: true, ...from, ...to });
    }
    const lane = ((head + 0.5) / heads - 0.5) * (heads > 1 ? LANES : 0);
    const from = { x0: target.left + target.width, y0: target.top + target.height / 2 + lane };
    return /** @type {const} */ ({ kind: "line", ...from, x1: source.left, y1: source.top + source.height / 2 + lane });
  };
  const [least, growth] = focus ? [0.25, 0.75] : [0.08, 0.62];
  return [
    ...chosen(view, focus).map((one) => {
      if (Number.isNaN(one.weight)) return { ...line(one), colour: NAN, alpha: 0.6, width: 2, dash: [4, 4] };
      const weight = Math.min(one.weight, 1);
      const [alpha, width] = [least + growth * weight, (1 + 4 * weight) * (columns ? 0.6 : 1)];
      return { ...line(one), colour: headColour(one.head, theme, heads), alpha, width, dash: null };
    }),
    ...dotted(view, focus).map((one) => ({ ...line(one), colour: theme.text, alpha: 0.85, width: 3, dash: [0.1, 7] })),
  ];
}

/**
 * Which colour is which head's, where there are several.
 * @param {View} view
 * @returns {import("../shared/saved.js").Legend}
 */
export function coloursOf({ header: { shape: [queries, keys] }, all, theme }) {
  const heads = all ? all.length / (queries * keys) : 0;
  /** @type {import("../shared/saved.js").Legend["marks"]} */
  const marks = Array.from({ length: heads }, (_, head) => {
    const colour = headColour(head, theme, heads);
    return [`H${head}`, (x, y, side) => [{ kind: "box", x, y, width: side, height: side, colour }]];
  });
  return { name: "", ticks: [], marks, note: "" };
}
