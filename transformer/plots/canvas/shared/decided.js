// What decided a word beside where a head looked: whether both are one word, and in how many words they are.

import { fill } from "./words.js";

/**
 * Whether no weight of a row is larger than that of a key; not where one is no number.
 * @param {ArrayLike<number>} row
 * @param {number} key
 */
export function agrees(row, key) {
  return Array.from(row).every((weight) => weight <= row[key]);
}

/**
 * In how many words that some key decides a head looked at that one most; or why that is not known.
 * @param {[key: number, nats?: number][] | undefined} decided undefined where nobody asked, empty where it is not known
 * @param {(query: number) => ArrayLike<number>} rowOf
 * @param {[agree: string, none: string, unknown: string]} said the sentences for each
 */
export function agreement(decided, rowOf, [agree, none, unknown]) {
  if (!decided) return "";
  const known = decided.flatMap(([key], query) => (key < 0 ? [] : [agrees(rowOf(query), key)]));
  if (!known.length) return decided.length ? none : unknown;
  return fill(agree, { hits: known.filter(Boolean).length, decided: known.length });
}
