// Two columns of tokens joined by lines: who looks at whom, in any of one layer's heads.

import { MASKED } from "../shared/cells.js";
import { themeOf } from "../shared/colours.js";
import { component } from "../shared/component.js";
import { button, element, pen, resized, say, screenRatio, toolbar } from "../shared/page.js";
import { sameTexts } from "../shared/words.js";
import { paintScene } from "../shared/scene.js";
import { makeChips, updateChips } from "./chips.js";
import { adopt, focusOf, forget, newChoices, shownHeads } from "./choices.js";
import { chipActions, listen } from "./events.js";
import { saveHeadView } from "./files.js";
import { bars, besideWhich, dotted, layout, mean, middle, ROW, stroke, strongest } from "../shared/lines.js";
import { local } from "./local.js";
import { footer, numberText, readout } from "./sentences.js";
import { fillColumn, makeColumn, updateColumn } from "./tokens.js";

const LINES = 2000; // strokes drawn at once, at most
const HEIGHT = 640; // CSS pixels; longer lists of tokens scroll

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {import("../shared/lines.js").Shape} shape
 * @property {string[]} query_labels
 * @property {string[]} key_labels
 * @property {string[]} heads the heads' names
 * @property {string} query_title
 * @property {string} key_title
 * @property {string} file_name
 * @property {import("../shared/saved.js").About} about
 * @property {boolean} masked whether a pair is masked
 * @property {[key: number, nats: number][]} [decided] as the record's kind has it
 * @property {Record<"save_png" | "save_svg" | "empty" | "threshold" | "heads" | "chip" | "hint" | "query" | "key" | "masked" | "nan" |
 *   "pointed" | "selected" | "selected_masked" | "mean_of" | "agree" | "none" | "unknown" | "focus" | "locked" | "no_head" | "lines" | "one_line" |
 *   "strongest" | "all" | "above" | "opacity" | "numbers_one" | "numbers_mean" | "numbers" | "numbers_and_bars" | "decided" |
 *   "masked_pairs" | "nan_pairs" | "next", string>} words
 */

/** @typedef {import("../shared/sides.js").Position} Position */
/** @typedef {import("../shared/lines.js").Line} Line */

/**
 * @typedef {import("../shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   weights: Float32Array<ArrayBuffer>,
 *   theme: import("../shared/colours.js").Theme,
 *   choices: import("./choices.js").Choices,
 *   options: import("./choices.js").Options | null,
 *   chips: HTMLElement[],
 *   measures: import("../shared/lines.js").Measures,
 *   lines: Line[],
 *   nan: Line[],
 *   total: number,
 *   focus: Position | null,
 *   pointed: Line | null,
 *   longest: { font: string, width: number } | null,
 *   question: string,
 *   opening: boolean,
 *   scene: (active: number[]) => import("../shared/scene.js").Item[],
 * }} View
 * `lines`, `nan`, `total` and `focus` answer `question`, which is "" when they must be found anew. While `opening`, the
 * first query is still to be scrolled to.
 */

export default component("head-view", (frame) => {
  /** @type {Partial<View>} */
  const start = { choices: newChoices(), options: null, chips: [], lines: [], nan: [], pointed: null, question: "", opening: true };
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), start));
  const [png, svg] = view.buttons;
  png.onclick = () => saveHeadView(view, "png");
  svg.onclick = () => saveHeadView(view, "svg");
  view.slider.oninput = () => {
    view.choices.threshold = Number(view.slider.value);
    view.question = "";
    view.draw();
  };
  view.slider.onchange = () => view.send("threshold", Number(view.slider.value));
  view.scroller.onscroll = view.draw;
  view.scene = (active) => sceneOf(view, active);
  listen(view);
  return {
    receive: (received) => receive(view, received),
    adopt: (options) => {
      view.options = options;
      adopt(view.choices, options, view.header.shape[0]);
    },
    draw: () => draw(view),
  };
}, local);

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const columns = { query: makeColumn("query"), key: makeColumn("key") };
  const chipBox = element("div", "chips", null, { role: "group" });
  const titles = { query: element("div", "title query"), key: element("div", "title key") };
  const canvas = element("canvas", "", null, { "aria-hidden": "true" });
  const sheet = element("div", "sheet");
  const scroller = element("div", "scroller");
  const reading = element("div", "reading", "", { "aria-live": "polite" });
  const explained = element("div", "footer");
  const body = element("div", "body");
  const empty = element("p", "empty");
  const bar = element("div", "bar");
  const buttons = [button("", () => {}), button("", () => {})];
  const titleRow = element("div", "titles");
  const slide = element("label", "slide");
  const [slideName, slideNumber] = [element("span"), element("output")];
  const slider = element("input", "", null, { type: "range", min: 0, max: 0.5, step: 0.01 });
  slide.append(slideName, slider, slideNumber);
  bar.append(chipBox, toolbar(buttons[0], ...buttons));
  titleRow.append(titles.query, titles.key);
  sheet.append(canvas, columns.query.box, columns.key.box);
  scroller.append(sheet);
  body.append(bar, titleRow, scroller, reading, slide, explained);
  root.append(body, empty);
  return { columns, chipBox, titles, canvas, sheet, scroller, reading, explained, body, empty, buttons, slide, slideName, slider, slideNumber };
}

/**
 * Take new weights and labels; what the user chose stays while the tokens and heads stay the same.
 * @param {View} view
 * @param {import("../shared/blob.js").Received} received
 */
function receive(view, { header, arrays }) {
  /** @type {Header | undefined} */
  const before = view.header;
  const same =
    before &&
    sameTexts(before.heads, header.heads) &&
    sameTexts(before.query_labels, header.query_labels) &&
    sameTexts(before.key_labels, header.key_labels);
  Object.assign(view, { header, weights: arrays.weights, pointed: null, question: "" });
  view.columns.query.row = besideWhich(view.weights, header.shape);
  if (same) return;
  forget(view.choices);
  view.longest = null;
  view.chips = makeChips(view.chipBox, header.heads, chipActions(view));
  view.opening = true;
  fillColumn(view.columns.query, header.query_labels);
  fillColumn(view.columns.key, header.key_labels);
  if (view.options) adopt(view.choices, view.options, header.shape[0]);
}

/** @param {View} view */
function draw(view) {
  const { header, root, scroller, choices } = view;
  const { words } = header;
  const nothing = header.shape.includes(0);
  view.body.hidden = nothing;
  view.empty.hidden = !nothing;
  say(view.empty, words.empty);
  if (nothing) return;
  view.theme = themeOf(root);
  const [heads, queries, keys] = header.shape;
  const content = Math.max(queries, keys) * ROW;
  view.sheet.style.height = `${content}px`;
  scroller.style.height = `${Math.min(content, HEIGHT)}px`;
  if (view.opening) scroller.scrollTop = middle(view.columns.query.row) - scroller.clientHeight / 2;
  view.opening = false;
  const active = shownHeads(choices);
  view.measures = layout(view.sheet.clientWidth, heads, active, longestToken(view), view.columns.query.row);
  root.style.setProperty("--column", `${view.measures.column}px`);
  root.style.setProperty("--bars", `${view.measures.bars}px`);
  view.chipBox.setAttribute("aria-label", words.heads);
  say(view.slideName, words.threshold);
  view.slider.value = String(choices.threshold);
  say(view.slideNumber, choices.threshold.toFixed(2));
  updateChips(view.chips, choices.active, view.theme, words.chip);
  choose(view, active);
  drawTokens(view, active);
  drawCanvas(view, active);
  view.titles.query.textContent = header.query_title;
  view.titles.key.textContent = header.key_title;
  [words.save_png, words.save_svg].forEach((text, order) => say(view.buttons[order], text));
  say(view.reading, readout(view, active));
  view.explained.textContent = footer(view, active);
}

/**
 * The width of the longest token as it is written when it is in focus; measured once for these tokens.
 * @param {View} view
 */
function longestToken(view) {
  const { header, theme } = view;
  if (view.longest?.font !== theme.font) {
    const context = pen(view.canvas);
    context.font = `700 14px ${theme.font}`;
    const widths = [...header.query_labels, ...header.key_labels].map((label) => context.measureText(label).width);
    view.longest = { font: theme.font, width: widths.reduce((a, b) => Math.max(a, b), 0) };
  }
  return view.longest.width;
}

/**
 * Choose the lines anew only when something that decides them has changed.
 * @param {View} view
 * @param {number[]} active
 */
function choose(view, active) {
  const { choices, header, weights } = view;
  const focus = focusOf(choices, header.shape);
  const question = JSON.stringify([active, choices.threshold, focus]);
  if (view.question === question) return;
  Object.assign(view, strongest(weights, header.shape, active, choices.threshold, focus, LINES), { question, focus });
}

/**
 * @param {View} view
 * @param {number[]} active
 */
function drawTokens(view, active) {
  const { choices, columns, header, focus, weights } = view;
  for (const side of /** @type {const} */ (["query", "key"])) {
    const across = focus && focus.side !== side && active.length > 0 ? focus : null;
    const look = (/** @type {number} */ index) => {
      const [query, key] = side === "query" ? [index, across?.index ?? 0] : [across?.index ?? 0, index];
      return {
        number: across ? numberText(mean(weights, header.shape, active, query, key), header.words) : "",
        locked: choices.locked?.side === side && choices.locked.index === index,
        focus: focus?.side === side && focus.index === index,
        paired: choices.pair?.[side === "query" ? 0 : 1] === index,
      };
    };
    const labels = header[`${side}_labels`];
    choices.current[side] = Math.min(choices.current[side], labels.length - 1);
    columns[side].box.setAttribute("aria-label", header[`${side}_title`]);
    updateColumn(columns[side], labels, choices.current[side], look);
  }
}

/**
 * @param {View} view
 * @param {number[]} active
 */
function drawCanvas(view, active) {
  const { canvas, scroller, measures, theme } = view;
  const [width, height] = [measures.width, scroller.clientHeight];
  canvas.style.height = `${height}px`;
  const top = scroller.scrollTop;
  const inView = (/** @type {import("../shared/scene.js").Item} */ item) =>
    item.kind === "line" ? Math.max(item.y0, item.y1) > top && Math.min(item.y0, item.y1) < top + height : true;
  const context = resized(canvas, width, height, screenRatio());
  context.translate(0, -top);
  paintScene(context, sceneOf(view, active).filter(inView), theme.font);
}

/**
 * Everything that the canvas shows, in sheet coordinates: the same for the screen and for files.
 * @param {View} view
 * @param {number[]} active
 * @returns {import("../shared/scene.js").Item[]}
 */
function sceneOf(view, active) {
  const { choices, header, lines, nan, measures, theme, weights } = view;
  const items = [...lines, ...nan].map((line) => stroke(line, measures, theme));
  const [, queries, keys] = header.shape;
  const [query, key] = choices.pair ?? [queries, keys];
  const weight = (/** @type {number} */ head) => weights[(head * queries + query) * keys + key];
  const ofPair = query < queries && key < keys ? active.filter((head) => weight(head) !== MASKED) : [];
  if (ofPair.length) {
    const halo = stroke({ head: -1, query, key, weight: 1 }, measures, theme);
    items.push({ ...halo, colour: theme.primary, width: Math.min(ofPair.length * 3, 16) + 6, alpha: 0.25 });
  }
  const seen = ofPair.filter((head) => !(weight(head) < choices.threshold));
  items.push(...seen.map((head) => stroke({ head, query, key, weight: weight(head) }, measures, theme)));
  if (view.pointed) items.push(stroke(view.pointed, measures, theme, true));
  items.push(...dotted(header.decided ?? [], weights, header.shape, active, view.focus, measures, theme));
  return [...items, ...bars(weights, header.shape, active, view.focus, measures, theme)];
}
