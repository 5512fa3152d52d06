// What decided a word beside where a head looked: whether both are one word, and in how many words they are.

import { rowOf } from "./cells.js";
import { decidedIn } from "./scene.js";
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
 * @param {Float32Array} weights of a head
 * @param {number} keys
 */
export function decidedElsewhere(decided, weights, keys) {
  return decided.flatMap(([key], query) => (key < 0 || agrees(rowOf(weights, keys, query), key) ? [] : [{ query, key }]));
}

/**
 * In how many words that some key decides a head looked at that one most; or why that is not known.
 * @param {Decided | undefined} decided undefined where nobody asked, empty where it is not known
 * @param {Float32Array} weights of a head
 * @param {number} keys
 * @param {[agree: string, none: string, unknown: string]} said the sentences for each
 */
export function agreement(decided, weights, keys, [agree, none, unknown]) {
  if (!decided) return "";
  const known = decided.flatMap(([key], query) => (key < 0 ? [] : [agrees(rowOf(weights, keys, query), key)]));
  if (!known.length) return decided.length ? none : unknown;
  return fill(agree, { hits: known.filter(Boolean).length, decided: known.length });
}

/**
 * Rings in the cells of a map whose keys decide a query that looks at another one most.
 * @param {Decided} decided
 * @param {Float32Array} weights
 * @param {number} keys
 * @param {import("./cells.js").Corner} corner
 */
export function ringsOf(decided, weights, keys, { left, top, cell, tall }) {
  return decidedElsewhere(decided, weights, keys).flatMap(({ query, key }) => decidedIn(left + key * cell, top + query * tall, cell, tall));
}
