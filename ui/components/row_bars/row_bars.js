// The weights of one row as bars: drag one, or move it by keys, and the others make room.

import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { element, say } from "../../../transformer/plots/canvas/shared/page.js";
import { fill } from "../../../transformer/plots/canvas/shared/words.js";
import { WHOLE, moved, stepped } from "./sharing.js";

const PATIENCE = 500; // milliseconds after the last key until Python is told

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {string[]} labels
 * @property {string} query
 * @property {Record<"hint" | "bar" | "row", string>} words
 */

/** @typedef {{ line: HTMLElement, name: HTMLElement, track: HTMLElement, bar: HTMLElement, number: HTMLElement }} Line */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & {
 *   header: Header,
 *   row: number[],
 *   sent: number[],
 *   lines: Line[],
 *   list: HTMLElement,
 *   hint: HTMLElement,
 *   dragged: number | null,
 *   waiting: number,
 * }} View
 * `row` is what is shown, `sent` what Python knows, both in thousandths; `dragged` is the bar under the pointer.
 */

export default component("row-bars", (frame) => {
  const list = element("div", "bars", null, { role: "group" });
  const hint = element("p", "hint");
  frame.root.append(list, hint);
  /** @type {Partial<View>} */
  const start = { row: [], sent: [], lines: [], list, hint, dragged: null, waiting: 0 };
  const view = /** @type {View} */ (Object.assign(frame, start));
  listen(view);
  return {
    receive: (received) => receive(view, received),
    draw: () => draw(view),
    close: () => clearTimeout(view.waiting),
  };
});

/**
 * Take a row; what is being dragged stays under the pointer.
 * @param {View} view
 * @param {import("../../../transformer/plots/canvas/shared/blob.js").Received} received
 */
function receive(view, { header, arrays }) {
  const row = Array.from(arrays.weights, (weight) => Math.round(weight * WHOLE));
  const news = header.labels.length !== view.row.length || row.some((part, index) => part !== view.sent[index]);
  view.header = header;
  if (view.lines.length !== header.labels.length) makeLines(view, header.labels.length);
  if (!news) return;
  clearTimeout(view.waiting);
  view.row = view.sent = row;
  view.dragged = null;
}

/**
 * @param {View} view
 * @param {number} count
 */
function makeLines(view, count) {
  view.lines = Array.from({ length: count }, (_, index) => {
    const line = element("div", "line");
    const name = element("span", "name");
    const track = element("div", "track", null, { role: "slider", tabindex: 0, "data-index": index });
    track.setAttribute("aria-valuemin", "0");
    track.setAttribute("aria-valuemax", "1");
    const bar = element("div", "fill");
    const number = element("span", "number");
    track.append(bar);
    line.append(name, track, number);
    return { line, name, track, bar, number };
  });
  view.list.replaceChildren(...view.lines.map(({ line }) => line));
}

/** @param {View} view */
function draw(view) {
  const { labels, query, words } = view.header;
  view.list.setAttribute("aria-label", fill(words.row, { query }));
  say(view.hint, words.hint);
  view.lines.forEach(({ name, track, bar, number }, index) => {
    const weight = (view.row[index] / WHOLE).toFixed(3);
    say(name, labels[index]);
    say(number, weight);
    bar.style.width = `${view.row[index] / 10}%`;
    track.setAttribute("aria-label", fill(words.bar, { query, key: labels[index] }));
    track.setAttribute("aria-valuenow", weight);
    track.setAttribute("aria-disabled", String(view.row.length < 2));
  });
}

/** @param {View} view */
function listen(view) {
  const { list } = view;
  const place = (/** @type {PointerEvent} */ event) => {
    if (view.dragged === null) return;
    const { left, width } = view.lines[view.dragged].track.getBoundingClientRect();
    change(view, view.dragged, ((event.clientX - left) / width) * WHOLE);
  };
  list.onpointerdown = (event) => {
    const index = indexOf(event.target);
    if (index === null || event.button !== 0) return;
    view.dragged = index;
    list.setPointerCapture(event.pointerId);
    view.lines[index].track.focus();
    event.preventDefault();
    place(event);
  };
  list.onpointermove = place;
  list.onpointerup = () => {
    if (view.dragged === null) return;
    view.dragged = null;
    tell(view);
  };
  list.onpointercancel = () => {
    view.dragged = null;
    view.row = view.sent;
    view.draw();
  };
  list.onkeydown = (event) => {
    const index = indexOf(event.target);
    const to = index === null ? undefined : stepped(event.key, event.shiftKey, view.row[index]);
    if (index === null || to === undefined) return;
    event.preventDefault();
    change(view, index, to);
    clearTimeout(view.waiting);
    view.waiting = window.setTimeout(() => tell(view), PATIENCE);
  };
}

/**
 * The bar that an element belongs to.
 * @param {EventTarget | null} target
 */
function indexOf(target) {
  const found = target instanceof Element ? target.closest(".track") : null;
  return found instanceof HTMLElement ? Number(found.dataset.index) : null;
}

/**
 * @param {View} view
 * @param {number} index
 * @param {number} value
 */
function change(view, index, value) {
  view.row = moved(view.row, index, value);
  view.draw();
}

/**
 * Tell Python of a row that it does not know.
 * @param {View} view
 */
function tell(view) {
  clearTimeout(view.waiting);
  if (view.row.every((part, index) => part === view.sent[index])) return;
  view.sent = view.row;
  view.send("forced", { thousandths: view.row });
}
