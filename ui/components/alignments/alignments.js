// Alignments of one source, side by side: point at a target word, and what it looked at is marked in every one.
// Several moments (the snapshots of a training) are played in the browser; nothing is asked of the server meanwhile.

import { agreement, rowOf, strongestOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { activate, walk } from "../../../transformer/plots/canvas/shared/grid.js";
import { button, element, say } from "../../../transformer/plots/canvas/shared/page.js";
import { rulerOf, savePicture, showLegend, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { drawOn, shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { fill, listed } from "../../../transformer/plots/canvas/shared/words.js";
import { makePlayer } from "../shared/player.js";
import { GAP, layoutOf, legendFor, sceneOf, sizeOf } from "./scene.js";

const SPOKEN = { most: 3, least: 0.05 }; // source words that are named, and the weight of one
const SAVED = 220; // pixels of width that a panel's title gets in a picture

/** @typedef {import("../../../transformer/plots/canvas/shared/colours.js").Theme} Theme */

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
 * @property {Record<"save_png" | "hint" | "hint_one" | "looks" | "compared" | "told" | "nothing" | "weight" |
 *   "nowhere" | "play" | "pause" | "moments" | "weighted" | "listed" | "beside" | "decided" | "agreed" |
 *   "decides", string>} words
 */

/** @typedef {ReturnType<typeof build>} Box One panel's elements, and what is drawn in them. */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & ReturnType<typeof parts> & {
 *   header: Header,
 *   arrays: Record<string, Float32Array<ArrayBuffer>>,
 *   theme: Theme,
 *   layout: import("./scene.js").Layout,
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
    receive: (received) => {
      Object.assign(view, received);
      view.moment = Math.min(view.moment, view.header.moments.length - 1);
    },
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
  return { bar, sheet, reading, legend, save: button("", () => {}), ruler: rulerOf() };
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
  const seen = header.same_rows ? order : focus?.panel;
  const looked = focus && rowOf(arrays[`${moment}.${seen}`], columns.length, focus.row);
  say(box.title, title);
  const weights = arrays[`${moment}.${order}`];
  const agreed = decided.length ? agreement(decided, weights, columns.length, [header.words.agreed, "", ""]) : "";
  say(box.note, [note, agreed].filter(Boolean).join(" · "));
  box.drawn = { rows, columns, decided, weights, layout, theme, focused, looked };
  const { wide, tall } = sizeOf(layout, rows.length, columns.length);
  drawOn(box.canvas, wide, tall, sceneOf(box.drawn), theme.font);
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
    drawn: /** @type {import("./scene.js").Drawn | null} */ (null),
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
  walk(canvas, {
    at: ({ offsetY }) => {
      const row = Math.floor((offsetY - view.layout.top) / view.layout.tall);
      return row >= 0 && row < rows() ? [row, 0] : null;
    },
    size: () => [rows(), 1],
    current: () => {
      const focus = focusOf(view);
      return [focus?.panel === order ? focus.row : -1, 0];
    },
    point: (cell) => point(cell && cell[0]),
    go: ([row]) => point(Math.max(row, 0)),
    pick: ([row]) => row >= 0 && mark(view, order, row),
    escape: () => view.marked && view.send("marked", { none: true }),
  });
  canvas.onblur = () => point(null);
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
  const isHere = (/** @type {Position | null} */ one) => one && one.row < (panels[one.panel]?.rows.length ?? 0);
  return [pointed, marked].find(isHere) ?? null;
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

/** @typedef {Pick<View, "header" | "arrays" | "moment">} Shown */

/**
 * What a target word looked at, in each panel where it stands, in words.
 * @param {Shown} view
 * @param {Position} focus
 */
export function spoken(view, focus) {
  const { columns, moments, same_rows: sameRows, words } = view.header;
  const { panels } = moments[view.moment];
  const compared = sameRows && panels.length > 1;
  const told = (/** @type {number} */ order) => {
    const row = rowOf(view.arrays[`${view.moment}.${order}`], columns.length, focus.row);
    const weights = Array.from(row, (weight, column) => ({ weight, column }));
    const strong = weights.filter(({ weight }) => weight >= SPOKEN.least).sort((a, b) => b.weight - a.weight);
    const each = strong.slice(0, SPOKEN.most).map(({ weight, column }) => {
      return fill(words.weighted, { word: columns[column], weight: weight.toFixed(2) });
    });
    const looked = each.length ? listed(each, words.listed) : words.nothing;
    const [decided] = panels[order].decided[focus.row] ?? [-1];
    const said = decided < 0 ? looked : fill(words.decides, { looked, word: columns[decided] });
    return compared ? fill(words.told, { title: panels[order].title, looked: said }) : said;
  };
  const orders = sameRows ? panels.map((_, order) => order) : [focus.panel];
  const looked = listed(orders.map(told), words.beside);
  return fill(compared ? words.compared : words.looks, { word: panels[focus.panel].rows[focus.row], looked });
}

/**
 * All panels with their titles and notes, side by side as on the page.
 * @param {View} view
 */
function saveAlignments({ boxes, header, layout, theme, moment }) {
  const ruler = rulerOf();
  const { columns } = header;
  const column = Math.max(SAVED, sizeOf(layout, 0, columns.length).wide);
  const panels = boxes.flatMap(({ title, note, drawn }) => {
    if (!drawn) return [];
    const said = { title: title.textContent ?? "", lines: [note.textContent ?? ""] };
    return [{ drawn, head: titleOf(ruler, said, column, theme), ...sizeOf(layout, drawn.rows.length, columns.length) }];
  });
  const abreast = Math.min(layout.abreast, panels.length);
  const inner = abreast * column + (abreast - 1) * GAP;
  const heads = Math.max(...panels.map(({ head }) => head.height));
  const tallest = heads + Math.max(...panels.map(({ tall }) => tall)) + GAP;
  const items = panels.flatMap(({ drawn, head }, order) => {
    const [x, y] = [(order % abreast) * (column + GAP), Math.floor(order / abreast) * tallest];
    const cells = sceneOf(drawn).map((item) => shifted(item, x, y + heads));
    return [...head.items.map((item) => shifted(item, x, y)), ...cells];
  });
  const about = { ...header.about, lines: [header.moments[moment].name, ...header.about.lines] };
  const drawn = { items, height: Math.ceil(panels.length / abreast) * tallest };
  savePicture(header.file_name, theme, inner, about, [drawn], { legend: legendFor(header, moment, theme) });
}
