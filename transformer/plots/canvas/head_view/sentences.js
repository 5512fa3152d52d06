// What a head view says in words below its lines.

import { agreement, decidedElsewhere } from "../shared/decided.js";
import { counted, fill, listed } from "../shared/words.js";
import { headOf, mean } from "../shared/lines.js";

/** @typedef {import("./head_view.js").View} View */

/**
 * A written weight; null is a masked pair.
 * @param {number | null} weight
 * @param {{ masked: string, nan: string }} words
 */
export function numberText(weight, words) {
  if (weight === null) return words.masked;
  return Number.isNaN(weight) ? words.nan : Math.abs(weight).toFixed(3);
}

/**
 * The sentence about what is pointed at, locked or selected.
 * @param {Pick<View, "choices" | "focus" | "header" | "pointed" | "weights">} view
 * @param {number[]} active
 */
export function readout({ choices, focus, header, pointed, weights }, active) {
  const { words } = header;
  const named = (/** @type {import("../shared/sides.js").Side} */ side, /** @type {number} */ index) =>
    fill(words[side], { token: header[`${side}_labels`][index], index });
  const pair = (/** @type {number} */ query, /** @type {number} */ key) =>
    `${named("query", query)} → ${named("key", key)}`;
  if (pointed) {
    const fields = { weight: numberText(pointed.weight, words), head: header.heads[pointed.head] };
    return fill(words.pointed, { pair: pair(pointed.query, pointed.key), ...fields });
  }
  const [, queries, keys] = header.shape;
  if (choices.pair && choices.pair[0] < queries && choices.pair[1] < keys && active.length) {
    const weight = mean(weights, header.shape, active, ...choices.pair);
    const heads = active.length === 1 ? header.heads[active[0]] : fill(words.mean_of, { count: active.length });
    const sentence = weight === null ? words.selected_masked : words.selected;
    return fill(sentence, { pair: pair(...choices.pair), weight: numberText(weight, words), heads });
  }
  if (!focus) return words.hint;
  return fill(choices.locked ? words.locked : words.focus, { token: named(focus.side, focus.index) });
}

/**
 * How many lines there are, which are left out, and what the numbers and marks mean.
 * @param {Pick<View, "choices" | "focus" | "header" | "lines" | "measures" | "nan" | "total" | "weights">} view
 * @param {number[]} active
 */
export function footer({ choices, focus, header, lines, measures, nan, total, weights }, active) {
  const { words } = header;
  if (!active.length) return words.no_head;
  const sentence = total > lines.length ? words.strongest : total === 1 ? words.one_line : words.lines;
  const drawn = fill(sentence, { drawn: counted(lines.length), count: counted(total) });
  const said = [fill(choices.threshold > 0 ? words.above : words.all, { lines: drawn, threshold: choices.threshold })];
  said.push(words.opacity);
  if (header.decided && active.length === 1) {
    const [own, keys] = [headOf(weights, header.shape, active[0]), header.shape[2]];
    if (decidedElsewhere(header.decided, own, keys).length) said.push(words.decided);
    said.push(agreement(header.decided, own, keys, [words.agree, words.none, words.unknown]));
  }
  if (focus) {
    const one = active.length === 1;
    const numbers = fill(one ? words.numbers_one : words.numbers_mean, {
      head: header.heads[active[0]],
      count: active.length,
    });
    said.push(fill(measures.bars ? words.numbers_and_bars : words.numbers, { numbers }));
  }
  if (header.masked) said.push(words.masked_pairs);
  if (nan.length) said.push(fill(words.nan_pairs, { count: counted(nan.length) }));
  return listed(said, words.next);
}
