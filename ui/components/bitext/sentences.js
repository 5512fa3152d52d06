// What a bitext says in words: what was looked at while a word was written, or which words looked at one.

import { fill } from "../../../transformer/plots/canvas/shared/words.js";

const SPOKEN = 3; // words, at most
const LEAST = 0.1; // weight of a further word that is spoken of

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

/**
 * One sentence about a position.
 * @param {Shown} view
 * @param {Position} position
 */
export function spoken(view, position) {
  const { header } = view;
  const { words } = header;
  const other = position.side === "target" ? header.source : header.target;
  const found = across(view, position).filter(({ weight }, order) => weight >= LEAST || (!order && position.side === "target"));
  const each = found.slice(0, SPOKEN).map(({ index, weight }) => {
    return fill(words.weighted, { word: other.texts[index], weight: weight.toFixed(2) });
  });
  const word = header[position.side].texts[position.index];
  if (!each.length) return fill(position.side === "target" ? words.nothing : words.nobody, { word, head: header.head });
  const listed = each.reduce((before, after) => fill(words.listed, { before, after }));
  if (position.side === "source") return fill(words.from, { word, head: header.head, listed });
  return fill(words.looked, { word, head: header.head, listed });
}
