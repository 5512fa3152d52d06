// Alignments of one source, side by side: point at a target word, and what it looked at is marked in every one.
// Several moments (the snapshots of a training) are played in the browser; nothing is asked of the server meanwhile.

import { agreement, boxesOf, marksOf, ringsOf, rowOf, strongestOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { activate, walk } from "../../../transformer/plots/canvas/shared/grid.js";
import { button, element, say } from "../../../transformer/plots/canvas/shared/page.js";
import { rulerOf, savePicture, showLegend, TICKS, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { decidedIn, drawOn, framed, shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { fill, listed } from "../../../transformer/plots/canvas/shared/words.js";
import { makePlayer } from "../shared/player.js";

const FONT = 12;
const LABEL = { row: 110, column: 128 }; // pixels for a label, at most
const CELL = { narrow: 12, wide: 44, least: 3, tall: 22, low: 12 };
const ABREAST = 480; // from this width on, panels stand side by side, if every source word has its room there
const GAP = 24;
const BAR = 14; // room below the cells for the marked source words' bars
export const PALE = 0.65; // how strong other labels are while a word is in focus
const STRONG = 0.1; // from this weight on, a source word counts as looked at
const SPOKEN = { most: 3, least: 0.05 }; // source words that are named, and the weight of one
const SAVED = 220; // pixels of width that a panel's title gets in a picture

/** @typedef {import("../../../transformer/plots/canvas/shared/colours.js").Theme} Theme */
/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Item} Item */

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
 *   theme: Theme,
 *   layout: Layout,
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
  const looked = focus && rowOf(arrays[`${moment}.${header.same_rows ? order : focus.panel}`], columns.length, focus.row);
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
    drawn: /** @type {Drawn | null} */ (null),
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

/** @typedef {ReturnType<typeof layoutOf>} Layout */

/**
 * What is drawn of one panel: `weights` are `MASKED` where there is no such key, `decided` the source word that decides each row
 * (-1: none), `focused` is the row in focus if it is this panel's, `looked` what the word in focus looked at.
 * @typedef {object} Drawn
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {import("../../../transformer/plots/canvas/shared/cells.js").Decided} decided
 * @property {Float32Array} weights
 * @property {Layout} layout
 * @property {Theme} theme
 * @property {number | null} focused
 * @property {Float32Array | null} looked
 */

/**
 * Where everything lies, in CSS pixels; the same for all panels, so that the source axes line up.
 * @param {Header} header
 * @param {number} moment
 * @param {Theme} theme
 * @param {number} width
 * @param {CanvasRenderingContext2D} ruler
 */
export function layoutOf({ columns, moments }, moment, theme, width, ruler) {
  const count = moments[moment].panels.length;
  ruler.font = `600 ${FONT}px ${theme.font}`;
  const widest = (/** @type {string[]} */ texts) => texts.reduce((most, label) => Math.max(most, ruler.measureText(label).width), 0);
  const panels = moments.flatMap((one) => one.panels);
  const left = Math.min(Math.ceil(widest(panels.flatMap((panel) => panel.rows))) + 10, LABEL.row, Math.round(width / 3));
  const roomOf = (/** @type {number} */ number) => (width - (number - 1) * GAP) / number - left - 4;
  const abreast = width >= ABREAST && roomOf(count) >= columns.length * CELL.narrow ? count : 1;
  const cell = Math.min(Math.max(Math.floor(roomOf(abreast) / columns.length), CELL.least), CELL.wide);
  const upright = widest(columns) + 6 > cell;
  const top = upright ? Math.min(Math.ceil(widest(columns)) + 10, LABEL.column) : 22;
  const many = panels.some(({ rows }) => rows.length > 40);
  return { abreast, left, top, cell, tall: many ? CELL.low : CELL.tall, upright };
}

/**
 * How large a panel's picture is, in CSS pixels.
 * @param {Layout} layout
 * @param {number} rows
 * @param {number} columns
 */
export function sizeOf(layout, rows, columns) {
  return { wide: layout.left + columns * layout.cell + 4, tall: layout.top + rows * layout.tall + BAR };
}

/**
 * A panel's picture, its upper left corner at the origin.
 * @param {Drawn} drawn
 * @returns {Item[]}
 */
export function sceneOf(drawn) {
  const { columns, weights, decided, layout, theme, looked } = drawn;
  const cells = boxesOf(weights, columns.length, layout, theme);
  return [...cells, ...labels(drawn), ...(looked ? marks(drawn, looked) : []), ...ringsOf(decided, weights, columns.length, layout)];
}

/**
 * The words: those that belong to what is in focus are bold, others paler then. Of narrow columns every few are named.
 * @param {Drawn} drawn
 * @returns {Item[]}
 */
function labels({ rows, columns, layout: { left, top, cell, tall, upright }, theme, focused, looked }) {
  const look = (/** @type {boolean} */ on) => ({ bold: on, size: FONT, colour: theme.text, alpha: looked && !on ? PALE : 1 });
  const each = Math.ceil(FONT / cell);
  const named = columns.map((text, column) => ({ text, column, on: Boolean(looked && looked[column] >= STRONG) }));
  return [
    ...rows.map((text, row) => /** @type {Item} */ ({
      kind: "text", text, x: left - 6, y: top + (row + 0.5) * tall, room: left - 10, align: "right", ...look(row === focused),
    })),
    ...named.filter(({ column }) => column % each === 0).map(({ text, column, on }) => /** @type {Item} */ ({
      kind: "text", text, align: "left", upright, ...look(on),
      ...(upright ? { x: left + (column + 0.5) * cell, y: top - 6, room: top - 10 } : { x: left + column * cell + 3, y: top - 12, room: cell - 3 }),
    })),
  ];
}

/**
 * The row in focus, the columns of the source words that it looked at, and a bar below for each, as long as its weight is large.
 * @param {Drawn} drawn
 * @param {Float32Array} looked
 * @returns {Item[]}
 */
function marks({ rows, columns, layout: { left, top, cell, tall }, theme, focused }, looked) {
  const below = top + rows.length * tall;
  const at = (/** @type {number} */ column) => left + column * cell;
  /** @type {Item[]} */
  const items = [];
  looked.forEach((weight, column) => {
    if (weight >= STRONG) items.push({ kind: "frame", x: at(column) + 0.5, y: top + 0.5, width: cell - 1, height: below - top - 1, colour: "#ffffff", line: 1 });
    if (weight > 0.005) items.push({ kind: "box", x: at(column) + 1, y: below + 2, width: cell - 2, height: Math.max(1, (BAR - 3) * weight), colour: theme.primary });
  });
  return focused === null ? items : [...items, ...framed(left, top + focused * tall, columns.length * cell, tall, "#ffffff")];
}

/**
 * What the colours mean.
 * @param {Header} header
 * @param {number} moment
 * @param {Theme} theme
 * @returns {import("../../../transformer/plots/canvas/shared/saved.js").Legend}
 */
export function legendFor({ masked, moments, words }, moment, theme) {
  const found = marksOf({ masked }, { masked: words.nowhere, nan: "" }, theme);
  if (moments[moment].panels.some(({ decided }) => decided.length)) found.push([words.decided, (x, y, side) => decidedIn(x, y, side, side)]);
  return { name: words.weight, ticks: TICKS, marks: found, note: "" };
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
    const weights = Array.from(rowOf(view.arrays[`${view.moment}.${order}`], columns.length, focus.row)).map((weight, column) => ({ weight, column }));
    const top = weights.filter(({ weight }) => weight >= SPOKEN.least).sort((a, b) => b.weight - a.weight).slice(0, SPOKEN.most);
    const each = top.map(({ weight, column }) => {
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
    return [...head.items.map((item) => shifted(item, x, y)), ...sceneOf(drawn).map((item) => shifted(item, x, y + heads))];
  });
  const about = { ...header.about, lines: [header.moments[moment].name, ...header.about.lines] };
  const drawn = { items, height: Math.ceil(panels.length / abreast) * tallest };
  savePicture(header.file_name, theme, inner, about, [drawn], { legend: legendFor(header, moment, theme) });
}
