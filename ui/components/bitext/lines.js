// The lines between two sentences: which are drawn, where they run, how strong they look.

import { decidedElsewhere } from "../../../transformer/plots/canvas/shared/decided.js";
import { strongest } from "../../../transformer/plots/canvas/shared/lines.js";
import { belongs } from "../../../transformer/plots/canvas/shared/sides.js";

const LEAST = 0.04; // weight of the thinnest line
const MANY = 24; // written words from which on only strong lines are drawn while no word is in focus
const STRONG = 0.25;
const LINES = 1500; // at most

/** @typedef {import("../../../transformer/plots/canvas/shared/sides.js").Position} Position */
/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Item} Item */
/** @typedef {Pick<import("./bitext.js").View, "header" | "weights">} Shown */
/** @typedef {{ left: number, top: number, width: number, height: number }} Box */

/**
 * The words across from a position with their weights, the strongest first; what is masked or no number is left out.
 * @param {Shown} view
 * @param {Position} position
 */
export function across({ header: { shape: [queries, keys] }, weights }, { side, index }) {
  const all = Array.from({ length: side === "query" ? keys : queries }, (_, other) => ({
    index: other,
    weight: weights[side === "query" ? index * keys + other : other * keys + index],
  }));
  return all.filter(({ weight }) => weight >= 0).sort((a, b) => b.weight - a.weight);
}

/**
 * The lines to draw, the strongest last: all of them, or those of the word in focus.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function chosen({ header: { shape: [queries, keys] }, weights }, focus) {
  const least = queries > MANY && !focus ? STRONG : LEAST;
  return strongest(weights, [1, queries, keys], [0], least, focus, LINES).lines;
}

/**
 * The dotted lines: from each written word that a source word decides to that one, where it is not looked at most.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function dotted({ header, weights }, focus) {
  return decidedElsewhere(header.decided, weights, header.shape[1]).filter((line) => belongs(line, focus));
}

/**
 * All lines, in the sheet's own coordinates: from under a source word to above a written one. They grow with their weight,
 * and are fainter while no word is in focus, since then all are there.
 * @param {Pick<import("./bitext.js").View, "header" | "weights" | "focus" | "boxes" | "theme">} view
 * @returns {Item[]}
 */
export function sceneOf({ header, weights, focus, boxes, theme }) {
  const view = { header, weights };
  const line = (/** @type {{ query: number, key: number }} */ { query, key }) => {
    const [source, target] = [boxes.key[key], boxes.query[query]];
    const from = { x0: source.left + source.width / 2, y0: source.top + source.height };
    return /** @type {const} */ ({ kind: "line", down: true, ...from, x1: target.left + target.width / 2, y1: target.top });
  };
  const [least, growth] = focus ? [0.25, 0.75] : [0.08, 0.62];
  return [
    ...chosen(view, focus).map((one) => {
      const alpha = Math.min(1, least + growth * one.weight);
      return { ...line(one), colour: theme.primary, alpha, width: 1 + 4 * one.weight, dash: null };
    }),
    ...dotted(view, focus).map((one) => ({ ...line(one), colour: theme.text, alpha: 0.85, width: 3, dash: [0.1, 7] })),
  ];
}
