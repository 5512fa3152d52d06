// The lines between two sentences: which are drawn, where they run, how strong they look.

import { across } from "./sentences.js";

const LEAST = 0.04; // weight of the thinnest line
const LINES = 1500; // at most

/** @typedef {{ query: number, key: number, weight: number }} Line */

/** @typedef {{ left: number, top: number, width: number, height: number }} Box */

/**
 * The lines to draw, the strongest last: all of them, or those of the word in focus.
 * @param {import("./sentences.js").Shown} view
 * @param {import("./sentences.js").Position | null} focus
 * @returns {Line[]}
 */
export function chosen(view, focus) {
  const rows = Array.from({ length: view.header.shape[0] }, (_, query) => query);
  const lines = rows.flatMap((query) =>
    across(view, { side: "target", index: query }).map(({ index, weight }) => ({ query, key: index, weight })),
  );
  const kept = lines.filter(({ query, key, weight }) => {
    return weight >= LEAST && (!focus || (focus.side === "target" ? query : key) === focus.index);
  });
  return kept.sort((a, b) => a.weight - b.weight).slice(-LINES);
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
