// Alignments of one source, side by side: point at a target word, and what it looked at is marked in every one.
// Several moments (the snapshots of a training) are played in the browser; nothing is asked of the server meanwhile.

import { activate } from "../../../transformer/plots/canvas/shared/active.js";
import { themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { agreement, strongestOf } from "../../../transformer/plots/canvas/shared/decided.js";
import { button, element, pen, resized, say, screenRatio } from "../../../transformer/plots/canvas/shared/page.js";
import { showLegend } from "../../../transformer/plots/canvas/shared/saved.js";
import { paintScene } from "../../../transformer/plots/canvas/shared/scene.js";
import { sameTexts } from "../../../transformer/plots/canvas/shared/words.js";
import { layoutOf, legendFor, rowAt, sceneOf, sizeOf } from "./canvas.js";
import { saveAlignments } from "./files.js";
import { makePlayer } from "../shared/player.js";
import { lookedAt, spoken } from "./sentences.js";

/** @typedef {{ title: string, note: string, rows: string[], decided: [key: number][] }} Panel */

/** @typedef {{ panel: number, row: number }} Position A target word. */

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {string[]} columns the source words
 * @property {boolean} same_rows whether row i is the same target word in all panels
 * @property {boolean} masked whether a key is missing anywhere
 * @property {string} file_name
 * @property {import("../../../transformer/plots/canvas/shared/saved.js").About} about
 * @property {{ name: string, panels: Panel[] }[]} moments
 * @property {Record<"save_png" | "hint" | "hint_one" | "looks" | "compared" | "told" | "nothing" | "weight" | "nowhere" | "play" | "pause" |
 *   "moments" | "weighted" | "listed" | "beside" | "decided" | "agreed" | "decides", string>} words
 */

/** @typedef {ReturnType<typeof build>} Box One panel's elements, and what is drawn in them. */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & ReturnType<typeof parts> & {
 *   header: Header,
 *   arrays: Record<string, Float32Array<ArrayBuffer>>,
 *   theme: import("../../../transformer/plots/canvas/shared/colours.js").Theme,
 *   layout: import("./canvas.js").Layout,
 *   player: import("../shared/player.js").Player,
 *   boxes: Box[],
 *   moment: number,
 *   pointed: Position | null,
 *   marked: Position | null,
 * }} View
 */

export default component("alignments", (frame) => {
  /** @type {Partial<View>} */
  const start = { ...parts(), boxes: [], moment: 0, pointed: null, marked: null };
  const view = /** @type {View} */ (Object.assign(frame, start));
  view.player = makePlayer({
    count: () => view.header.moments.length,
    at: () => view.moment,
    show: (moment) => {
      view.moment = moment;
      view.draw();
    },
    settled: (moment) => view.send("moment", moment),
  });
  view.save.onclick = () => saveAlignments(view);
  view.bar.append(view.player.root, view.save);
  view.root.append(view.bar, view.sheet, view.reading, view.legend);
  return {
    receive: (received) => receive(view, received),
    adopt: (options) => {
      view.marked = options.marked;
      if (view.header.moments[options.moment]) view.moment = options.moment;
    },
    draw: () => draw(view),
    close: () => view.player.stop(),
  };
});

/** The view's elements, still without words. */
function parts() {
  const [bar, sheet, reading, legend] = ["bar", "sheet", "reading", "legend"].map((name) => element("div", name));
  return { bar, sheet, reading, legend, save: button("", () => {}), ruler: pen(element("canvas")) };
}

/**
 * @param {View} view
 * @param {import("../../../transformer/plots/canvas/shared/blob.js").Received} received
 */
function receive(view, received) {
  const { columns, moments } = /** @type {Header} */ (received.header);
  view.moment = Math.min(view.moment, moments.length - 1);
  const before = view.header?.moments[view.moment]?.panels ?? [];
  const { panels } = moments[view.moment];
  const same = before.length === panels.length && panels.every(({ rows }, i) => sameTexts(rows, before[i].rows));
  if (!same || !sameTexts(columns, view.header.columns)) view.pointed = null;
  Object.assign(view, received);
}

/** @param {View} view */
function draw(view) {
  const { header, root, sheet, boxes, moment } = view;
  view.theme = themeOf(root);
  const { panels } = header.moments[moment];
  while (boxes.length < panels.length) boxes.push(build(view, boxes.length));
  while (boxes.length > panels.length) boxes.pop()?.root.remove();
  view.layout = layoutOf(header, moment, view.theme, sheet.clientWidth || root.clientWidth, view.ruler);
  sheet.style.setProperty("--columns", String(view.layout.abreast));
  sheet.classList.toggle("stacked", panels.length > view.layout.abreast);
  view.player.root.hidden = header.moments.length < 2;
  const { words } = header;
  view.player.update(header.moments, moment, { play: words.play, pause: words.pause, moments: words.moments });
  const focus = focusOf(view);
  panels.forEach((panel, order) => show(view, boxes[order], panel, order, focus));
  say(view.reading, focus ? spoken(view, focus) : hintOf(view));
  say(view.save, words.save_png);
  showLegend(view.legend, legendFor(header, moment, view.theme), root.clientWidth, view.theme);
}

/**
 * Write the texts and draw the cells of one panel.
 * @param {View} view
 * @param {Box} box
 * @param {Panel} panel
 * @param {number} order
 * @param {Position | null} focus
 */
function show(view, box, { title, note, rows, decided }, order, focus) {
  const { header, arrays, moment, layout, theme } = view;
  const { columns } = header;
  const isHere = focus && (header.same_rows || focus.panel === order) && focus.row < rows.length;
  const focused = isHere ? focus.row : null;
  const looked = focus && lookedAt(view, header.same_rows ? order : focus.panel, focus.row);
  say(box.title, title);
  const weights = arrays[`${moment}.${order}`];
  const agreed = decided.length ? agreement(decided, weights, columns.length, [header.words.agreed, "", ""]) : "";
  say(box.note, [note, agreed].filter(Boolean).join(" · "));
  box.drawn = { rows, columns, decided, weights, layout, theme, focused, looked };
  const { wide, tall } = sizeOf(layout, rows.length, columns.length);
  Object.assign(box.canvas.style, { width: `${wide}px`, height: `${tall}px` });
  paintScene(resized(box.canvas, wide, tall, screenRatio()), sceneOf(box.drawn), theme.font);
  Object.assign(box.canvas.dataset, {
    left: layout.left, top: layout.top, cellWidth: layout.cell, cellHeight: layout.tall, rows: rows.length,
    row: focused ?? "", marked: looked ? strongestOf(looked) : "",
  });
  box.canvas.setAttribute("aria-label", `${title}. ${hintOf(view)}`);
  if (!rows.length) return;
  const row = focused ?? 0;
  const selected = view.marked?.row === row && (header.same_rows || view.marked.panel === order);
  const attributes = { "aria-posinset": row + 1, "aria-setsize": rows.length, "aria-selected": String(selected) };
  activate(box.canvas, "option", spoken(view, { panel: order, row }), attributes);
}

/**
 * @param {View} view
 * @param {number} order
 */
function build(view, order) {
  const canvas = element("canvas", "", null, { tabindex: "0", role: "listbox", "data-panel": order });
  const box = {
    root: element("figure", "alignment"),
    title: element("b"),
    note: element("span", "note"),
    canvas,
    drawn: /** @type {import("./canvas.js").Drawn | null} */ (null),
  };
  const caption = element("figcaption");
  caption.append(box.title, box.note);
  box.root.append(caption, canvas);
  view.sheet.append(box.root);
  const rows = () => view.header.moments[view.moment].panels[order].rows.length;
  const point = (/** @type {number | null} */ row) => {
    if (row === (view.pointed?.panel === order ? view.pointed.row : null)) return;
    view.pointed = row === null ? null : { panel: order, row };
    view.draw();
  };
  const rowOf = (/** @type {MouseEvent} */ { offsetY }) => rowAt(view.layout, offsetY, rows());
  canvas.onpointermove = (event) => point(rowOf(event));
  canvas.onpointerleave = () => point(null);
  canvas.onclick = (event) => {
    const row = rowOf(event);
    if (row !== null) mark(view, order, row);
  };
  canvas.onblur = () => point(null);
  canvas.onkeydown = (event) => {
    const focus = focusOf(view);
    const now = focus?.panel === order ? focus.row : -1;
    const moved = { ArrowUp: now - 1, ArrowDown: now + 1, Home: 0, End: rows() - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") now >= 0 && mark(view, order, now);
    else if (event.key === "Escape") view.marked && view.send("marked", { none: true });
    else if (moved === undefined) return;
    event.preventDefault();
    if (moved === undefined) return;
    point(Math.min(Math.max(moved, 0), rows() - 1));
  };
  return box;
}

/**
 * What can be done here: one map or several.
 * @param {View} view
 */
function hintOf({ header: { moments, words }, moment }) {
  return moments[moment].panels.length > 1 ? words.hint : words.hint_one;
}

/**
 * The target word that is looked at: the one under the pointer, else the marked one, if it is there.
 * @param {View} view
 */
function focusOf({ header, moment, pointed, marked }) {
  const { panels } = header.moments[moment];
  return [pointed, marked].find((position) => position && position.row < (panels[position.panel]?.rows.length ?? 0)) ?? null;
}

/**
 * @param {View} view
 * @param {number} panel
 * @param {number} row
 */
function mark(view, panel, row) {
  const same = view.marked?.panel === panel && view.marked.row === row;
  view.send("marked", same ? { none: true } : { panel, row });
}
