// The weights of one row as bars: drag one, or move it by keys, and the others make room.

import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { element, say } from "../../../transformer/plots/canvas/shared/page.js";
import { fill } from "../../../transformer/plots/canvas/shared/words.js";

const WHOLE = 1000; // what a row's weights sum to: they are counted in thousandths
const PATIENCE = 400; // milliseconds after the last change until Python is told

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {string[]} labels
 * @property {string} query
 * @property {Record<"hint" | "bar" | "row", string>} words
 */

/** @typedef {{ line: HTMLElement, name: HTMLElement, track: HTMLInputElement, number: HTMLElement }} Line */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & {
 *   header: Header,
 *   row: number[],
 *   sent: number[],
 *   lines: Line[],
 *   list: HTMLElement,
 *   hint: HTMLElement,
 *   waiting: number,
 * }} View
 * `row` is what is shown, `sent` what Python knows, both in thousandths.
 */

export default component("row-bars", (frame) => {
  const list = element("div", "bars", null, { role: "group" });
  const hint = element("p", "hint");
  frame.root.append(list, hint);
  /** @type {Partial<View>} */
  const start = { row: [], sent: [], lines: [], list, hint, waiting: 0 };
  const view = /** @type {View} */ (Object.assign(frame, start));
  return {
    receive: (received) => receive(view, received),
    draw: () => draw(view),
    close: () => clearTimeout(view.waiting),
  };
});

/**
 * Take a row; what is being dragged stays where it is until there is news.
 * @param {View} view
 * @param {import("../../../transformer/plots/canvas/shared/blob.js").Received} received
 */
function receive(view, { header, arrays }) {
  const row = Array.from(arrays.weights, (weight) => Math.round(weight * WHOLE));
  const news = header.labels.length !== view.row.length || row.some((part, index) => part !== view.sent[index]);
  view.header = header;
  if (view.lines.length !== header.labels.length) {
    view.lines = header.labels.map((/** @type {string} */ _, /** @type {number} */ index) => makeLine(view, index));
    view.list.replaceChildren(...view.lines.map(({ line }) => line));
  }
  if (!news) return;
  clearTimeout(view.waiting);
  view.row = view.sent = row;
}

/**
 * @param {View} view
 * @param {number} index
 * @returns {Line}
 */
function makeLine(view, index) {
  const [line, name, number] = [element("div", "line"), element("span", "name"), element("span", "number")];
  const track = element("input", "track", null, { type: "range", min: 0, max: WHOLE, step: 10, "data-index": index });
  track.oninput = () => {
    view.row = moved(view.row, index, Number(track.value));
    clearTimeout(view.waiting);
    view.draw();
  };
  track.onchange = () => {
    clearTimeout(view.waiting);
    view.waiting = window.setTimeout(() => {
      if (view.row.every((part, other) => part === view.sent[other])) return; // Python knows it
      view.sent = view.row;
      view.send("forced", { thousandths: view.row });
    }, PATIENCE);
  };
  line.append(name, track, number);
  return { line, name, track, number };
}

/** @param {View} view */
function draw(view) {
  const { labels, query, words } = view.header;
  view.list.setAttribute("aria-label", fill(words.row, { query }));
  say(view.hint, words.hint);
  view.lines.forEach(({ name, track, number }, index) => {
    const weight = (view.row[index] / WHOLE).toFixed(3);
    say(name, labels[index]);
    say(number, weight);
    track.value = String(view.row[index]);
    track.disabled = view.row.length < 2;
    track.setAttribute("aria-label", fill(words.bar, { query, key: labels[index] }));
    track.setAttribute("aria-valuetext", weight);
  });
}

/**
 * `parts` brought to whole thousandths that sum to `whole`, in their proportions; alike where all are 0. Each ends at
 * what those up to it are together, rounded.
 * @param {ArrayLike<number>} parts
 * @param {number} whole
 * @returns {number[]}
 */
export function shared(parts, whole) {
  const given = Array.from(parts, (part) => Math.max(part, 0));
  const sum = given.reduce((before, part) => before + part, 0);
  let reached = 0;
  const ends = given.map((part) => Math.round((reached += sum > 0 ? (part / sum) * whole : whole / given.length)));
  return ends.map((end, index) => end - (ends[index - 1] ?? 0));
}

/**
 * A row after one of its weights was moved to `value`: the others share what is left, in their proportions.
 * A row of one key keeps it.
 * @param {number[]} row
 * @param {number} index
 * @param {number} value
 */
export function moved(row, index, value) {
  if (row.length < 2) return row;
  const kept = Math.min(Math.max(Math.round(value), 0), WHOLE);
  const others = shared(row.filter((_, other) => other !== index), WHOLE - kept);
  return [...others.slice(0, index), kept, ...others.slice(index)];
}
