// What decided a word beside where a head looked: whether both are one word, and in how many words they are.

import { fill } from "./words.js";

/** @typedef {[key: number, nats?: number][]} Decided For each query the key that decides it, -1 where none does. */

/**
 * The place of the largest weight of a row: the first of equals, and no NaN where there is a number.
 * @param {ArrayLike<number>} row
 */
export function strongestOf(row) {
  return Array.from(row).reduce((best, weight, at) => (weight > row[best] || Number.isNaN(row[best]) ? at : best), 0);
}

/**
 * Whether no weight of a row is larger than that of a key; not where one is no number.
 * @param {ArrayLike<number>} row
 * @param {number} key
 */
export function agrees(row, key) {
  return Array.from(row).every((weight) => weight <= row[key]);
}

/**
 * The queries with the keys that decide them, where they look at another key most.
 * @param {Decided} decided
 * @param {(query: number) => ArrayLike<number>} rowOf
 */
export function decidedElsewhere(decided, rowOf) {
  return decided.flatMap(([key], query) => (key < 0 || agrees(rowOf(query), key) ? [] : [{ query, key }]));
}

/**
 * In how many words that some key decides a head looked at that one most; or why that is not known.
 * @param {Decided | undefined} decided undefined where nobody asked, empty where it is not known
 * @param {(query: number) => ArrayLike<number>} rowOf
 * @param {[agree: string, none: string, unknown: string]} said the sentences for each
 */
export function agreement(decided, rowOf, [agree, none, unknown]) {
  if (!decided) return "";
  const known = decided.flatMap(([key], query) => (key < 0 ? [] : [agrees(rowOf(query), key)]));
  if (!known.length) return decided.length ? none : unknown;
  return fill(agree, { hits: known.filter(Boolean).length, decided: known.length });
}
