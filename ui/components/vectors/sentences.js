// What a plane of queries and keys says in words: the point in focus, what it shares weight with, its sentence.

import { fill } from "../../../transformer/canvas/shared/words.js";
import { partners } from "./points.js";

const SPOKEN = 3; // partners, at most

/**
 * One sentence about the point in focus.
 * @param {Pick<import("./vectors.js").View, "held" | "header" | "weights">} view
 * @param {number} number
 */
export function spoken({ held, header, weights }, number) {
  const { words, sentences } = header;
  const { side, sentence, place } = held.points[number];
  const found = partners(held, sentences, weights, number).slice(0, SPOKEN);
  const listed = found
    .map(({ text, weight }) => fill(words.weighted, { word: text, weight: weight.toFixed(2) }))
    .reduce((before, after) => (before ? fill(words.listed, { before, after }) : after), "");
  const fields = { word: sentences[sentence][side][place], place: place + 1, listed };
  if (!listed) return fill(side === "query" ? words.query_alone : words.key_alone, fields);
  return fill(side === "query" ? words.query_looks : words.key_seen, fields);
}

/**
 * The sentence that a point is of, as one text: the tokens of its own side.
 * @param {Pick<import("./vectors.js").View, "held" | "header">} view
 * @param {number} number
 */
export function sentenceOf({ held, header }, number) {
  const { side, sentence } = held.points[number];
  return header.sentences[sentence][side].join(" ");
}
