// One head, large: queries down, keys across, one colour a weight. Point at a cell, or walk there, to read its number.

import { activate } from "../shared/active.js";
import { themeOf } from "../shared/colours.js";
import { component } from "../shared/component.js";
import { moved } from "../shared/grid.js";
import { pairSaid, weightsOf } from "../shared/local.js";
import { button, element, focusedBeside, resized, say, screenRatio } from "../shared/page.js";
import { paintScene } from "../shared/scene.js";
import { fill } from "../shared/words.js";
import { saveHeatmap, saveNumbers } from "./files.js";
import { makeTable } from "./marked.js";
import { measuresOf, ringOf, sceneOf } from "./scene.js";

/**
 * One head and what is said of it.
 * @typedef {object} Header
 * @property {Record<"save_png" | "save_svg" | "empty" | "name" | "told" | "masked" | "nan" | "marks" | "hint" |
 *   "relative" | "unit" | "ends" | "nothing" | "pair" | "looks" | "hidden" | "unmark" | "layer" | "head", string>} words
 * @property {import("../shared/local.js").Choice} choice
 * @property {string} title
 * @property {string} file_name
 * @property {{ queries: string, keys: string, notes: string, facts: string[], edges: [number[], number[]] }} axis
 * @property {boolean} dense whether cells shrink until the map fits its room, and not each query and key is named
 * @property {string} save_csv what the button says that saves the map's numbers; empty for none
 */

/**
 * @typedef {import("../shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   weights: Float32Array<ArrayBuffer>,
 *   theme: import("../shared/colours.js").Theme,
 *   measures: import("./scene.js").Measures,
 *   current: [number, number],
 *   pointed: [number, number] | null,
 * }} View
 * `current` is the cell where the keyboard stands, `pointed` the one under the pointer.
 */

/** @type {import("../shared/local.js").Local} */
const local = {
  seen(header, _, choice) {
    const { kind, layer, head } = choice;
    const { titles, file_names } = header.sites[kind.sites[layer]];
    const order = head ?? kind.heads;
    return {
      header: { ...header, choice, title: titles[order], file_name: file_names[order], axis: header.axes[kind.name] },
      arrays: { weights: weightsOf(kind, layer, head) },
      options: {},
    };
  },
  acted(name, value, { kind, pair, relative }) {
    if (name === "relative") return { relative: relative ? null : "true" };
    const again = !value || (pair?.[0] === value[0] && pair?.[1] === value[1]);
    return { pair: again ? null : pairSaid(kind, value[0], value[1]) };
  },
};

export default component("heatmap", (frame) => {
  /** @type {Partial<View>} */
  const start = { current: [0, 0], pointed: null };
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), start));
  listen(view);
  return {
    receive: ({ header, arrays }) => receive(view, header, arrays.weights),
    draw: () => draw(view),
  };
}, local);

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const relative = button("", () => {});
  relative.setAttribute("role", "switch");
  const buttons = [button("", () => {}), button("", () => {}), button("", () => {})];
  const title = element("div", "title");
  const tools = element("div", "tools");
  tools.append(relative, ...buttons);
  const bar = element("div", "bar");
  bar.append(title, tools);
  const canvas = element("canvas", "", null, { tabindex: "0", role: "grid" });
  const scroller = element("div", "scroller");
  scroller.append(canvas);
  const reading = element("div", "reading", "", { "aria-hidden": "true" });
  const notes = element("p", "notes");
  const marked = element("div", "marked", null, { "aria-live": "polite" });
  const empty = element("p", "empty");
  root.append(bar, scroller, reading, notes, marked, empty);
  return { relative, buttons, title, bar, canvas, scroller, reading, notes, marked, empty };
}

/**
 * Take another head; where the keyboard stands is kept while there is such a cell.
 * @param {View} view
 * @param {Header} header
 * @param {Float32Array<ArrayBuffer>} weights
 */
function receive(view, header, weights) {
  const { queries, keys } = header.choice.kind;
  const before = view.header?.choice.pair;
  const { pair } = header.choice;
  Object.assign(view, { header, weights });
  const there = view.current[0] < queries.texts.length && view.current[1] < keys.texts.length;
  if (pair && (pair[0] !== before?.[0] || pair[1] !== before[1])) view.current = pair;
  else if (!there) view.current = [0, 0];
  if (!there) view.pointed = null;
}

/** @param {View} view */
function draw(view) {
  const { header, canvas, root } = view;
  const { words, choice } = header;
  const { queries, keys } = choice.kind;
  const nothing = !queries.texts.length || !keys.texts.length;
  for (const one of [view.bar, view.scroller, view.reading, view.notes, view.marked]) one.hidden = nothing;
  view.empty.hidden = !nothing;
  say(view.empty, words.empty);
  if (nothing) return;
  view.theme = themeOf(root);
  view.measures = measuresOf(view, root.clientWidth);
  const { width, height } = view.measures;
  const context = resized(canvas, width, height, screenRatio());
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.dataset.cells = [view.measures.left, view.measures.top, view.measures.cell, view.measures.tall].join(" "); // for whoever measures
  paintScene(context, [...sceneOf(view), ...ringOf(view, focusedBeside(canvas) === canvas)], view.theme.font);
  say(view.title, header.title);
  say(view.notes, header.axis.notes);
  say(view.relative, words.relative);
  view.relative.setAttribute("aria-checked", String(choice.relative));
  [words.save_png, words.save_svg, header.save_csv].forEach((text, order) => say(view.buttons[order], text));
  view.buttons[2].hidden = !header.save_csv;
  describe(view);
  makeTable(view);
}

/**
 * Say the cell under the pointer, or where the keyboard stands.
 * @param {View} view
 */
function describe(view) {
  const { header, canvas, current, pointed, reading } = view;
  const { words, choice } = header;
  const { queries, keys } = choice.kind;
  canvas.setAttribute("aria-label", fill(words.name, { title: header.title, queries: queries.texts.length, keys: keys.texts.length }));
  canvas.setAttribute("aria-rowcount", String(queries.texts.length));
  canvas.setAttribute("aria-colcount", String(keys.texts.length));
  const isMarked = choice.pair?.[0] === current[0] && choice.pair[1] === current[1];
  const attributes = { "aria-colindex": current[1] + 1, "aria-selected": String(isMarked) };
  activate(canvas, "gridcell", told(view, current), attributes, ["row", { "aria-rowindex": current[0] + 1 }]);
  const focused = focusedBeside(canvas) === canvas;
  say(reading, pointed ? told(view, pointed) : focused ? told(view, current) : words.hint);
}

/**
 * A cell in words.
 * @param {View} view
 * @param {[number, number]} cell
 */
function told({ header, weights }, [query, key]) {
  const { words, choice } = header;
  const { queries, keys } = choice.kind;
  const weight = weights[query * keys.texts.length + key];
  const value = weight < 0 ? words.masked : Number.isNaN(weight) ? words.nan : weight.toFixed(3);
  const said = fill(words.told, { query: queries.labels[query], key: keys.labels[key], value });
  return choice.pair?.[0] === query && choice.pair[1] === key ? `${said} ${words.marks}` : said;
}

/** @param {View} view */
function listen(view) {
  const { canvas, relative, buttons } = view;
  const at = (/** @type {MouseEvent} */ event) => cellAt(view, event);
  canvas.onpointermove = (event) => point(view, at(event));
  canvas.onpointerleave = () => point(view, null);
  canvas.onclick = (event) => {
    const cell = at(event);
    if (!cell) return;
    view.current = cell;
    view.send("picked", cell);
  };
  canvas.onfocus = canvas.onblur = view.draw;
  canvas.onkeydown = (event) => {
    const { queries, keys } = view.header.choice.kind;
    const to = moved(event.key, view.current, queries.texts.length, keys.texts.length);
    if (to) view.current = to;
    else if (event.key === "Enter" || event.key === " ") view.send("picked", view.current);
    else return;
    event.preventDefault();
    view.pointed = null;
    view.draw();
  };
  relative.onclick = () => view.send("relative", null);
  buttons[0].onclick = () => saveHeatmap(view, "png");
  buttons[1].onclick = () => saveHeatmap(view, "svg");
  buttons[2].onclick = () => saveNumbers(view);
}

/**
 * @param {View} view
 * @param {[number, number] | null} cell
 */
function point(view, cell) {
  if (view.pointed?.[0] === cell?.[0] && view.pointed?.[1] === cell?.[1]) return;
  view.pointed = cell;
  view.canvas.classList.toggle("pointing", Boolean(cell));
  if (view.measures) describe(view);
}

/**
 * The cell under the pointer.
 * @param {View} view
 * @param {MouseEvent} event
 * @returns {[number, number] | null}
 */
function cellAt({ canvas, measures, header }, event) {
  if (!measures) return null;
  const box = canvas.getBoundingClientRect();
  const { queries, keys } = header.choice.kind;
  const query = Math.floor((event.clientY - box.top - measures.top) / measures.tall);
  const key = Math.floor((event.clientX - box.left - measures.left) / measures.cell);
  return query >= 0 && query < queries.texts.length && key >= 0 && key < keys.texts.length ? [query, key] : null;
}
