// Two sentences, such as a source and its translation, joined by the lines of one head: point at a word to see what it
// looked at. A dotted line leads to the source word that decided, where that is another one.

import { rgb, themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { button, element, explained, say, svg } from "../../../transformer/plots/canvas/shared/page.js";
import { rulerOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { nodeOf } from "../../../transformer/plots/canvas/shared/scene.js";
import { followWords, positionOf } from "../../../transformer/plots/canvas/shared/sides.js";
import { fill, sameTexts } from "../../../transformer/plots/canvas/shared/words.js";
import { saveBitext } from "./files.js";
import { across, sceneOf } from "./lines.js";
import { local } from "./local.js";
import { legend, spoken } from "./sentences.js";

/** @typedef {{ texts: string[], attached: boolean[], special: boolean[], language: string }} Words */

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {[number, number]} shape target words, source words
 * @property {Words} key the words above
 * @property {Words} query the words below
 * @property {string} head what the head is called within a sentence
 * @property {boolean} within whether both are the sentence that is read
 * @property {[key: number, nats: number][]} decided for each target word the source word that decides it; empty: not known
 * @property {boolean} asked whether it is known, or would be for whole words of a short sentence
 * @property {import("../../../transformer/plots/canvas/shared/saved.js").About} about
 * @property {string} how how that was found
 * @property {string} file_name
 * @property {Record<"save_png" | "empty" | "solid" | "dotted" | "agree" | "none" | "unknown" | "point" | "help" | "source" | "target" | "looked" |
 *   "looked_within" | "from" | "from_within" | "weighted" | "listed" | "nothing" | "nobody" | "same" | "other" | "undecided" |
 *   "decides", string>} words
 */

/** @typedef {import("../../../transformer/plots/canvas/shared/sides.js").Position} Position */
/** @typedef {import("../../../transformer/plots/canvas/shared/sides.js").Side} Side */
/** @typedef {import("./lines.js").Box} Box */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   weights: Float32Array<ArrayBuffer>,
 *   theme: import("../../../transformer/plots/canvas/shared/colours.js").Theme,
 *   selected: number | null,
 *   hovered: Position | null,
 *   focus: Position | null,
 *   current: Record<Side, number>,
 *   made: Record<Side, HTMLElement[]>,
 *   boxes: Record<Side, Box[]>,
 * }} View
 * `selected` is the word that Python keeps, `focus` the position that is lit.
 */

export default component("bitext", (frame) => {
  /** @type {Partial<View>} */
  const start = { selected: null, hovered: null, focus: null, current: { query: 0, key: 0 } };
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), start));
  view.made = { query: [], key: [] };
  view.boxes = { query: [], key: [] };
  view.save.onclick = () => saveBitext(view);
  listen(view);
  return {
    receive: (received) => receive(view, received),
    adopt: (options) => (view.selected = options.selected),
    draw: () => draw(view),
  };
}, local);

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const rows = { key: element("div", "words source", null, { role: "group" }), query: element("div", "words target", null, { role: "group" }) };
  const lines = svg("svg", { "aria-hidden": "true" });
  const sheet = element("div", "sheet");
  sheet.append(rows.key, lines, rows.query);
  const reading = element("div", "reading", "", { "aria-live": "polite" });
  const how = element("span", "how");
  const save = button("", () => {});
  const bar = element("div", "foot");
  const tools = element("div", "tools");
  tools.append(how, save);
  bar.append(reading, tools);
  const empty = element("p", "empty");
  root.append(sheet, bar, empty);
  return { rows, lines, sheet, reading, how, save, bar, empty };
}

/**
 * Take a new head or other sentences; where the keyboard stands is kept while the words stay the same.
 * @param {View} view
 * @param {import("../../../transformer/plots/canvas/shared/blob.js").Received} received
 */
function receive(view, { header, arrays }) {
  /** @type {Header | undefined} */
  const before = view.header;
  const same = before && sameTexts(before.key.texts, header.key.texts) && sameTexts(before.query.texts, header.query.texts);
  Object.assign(view, { header, weights: arrays.weights });
  if (same) return;
  view.hovered = null;
  view.current = { query: 0, key: 0 };
  for (const side of /** @type {const} */ (["key", "query"])) makeWords(view, side);
}

/**
 * @param {View} view
 * @param {Side} side
 */
function makeWords(view, side) {
  const { texts, attached, special } = view.header[side];
  view.made[side] = texts.map((text, index) => {
    const made = element(side === "query" ? "button" : "span", "word", text, { "data-side": side, "data-index": index });
    if (side === "query") made.setAttribute("type", "button");
    else made.setAttribute("role", "img");
    made.classList.toggle("attached", attached[index]);
    made.classList.toggle("special", special[index]);
    return made;
  });
  view.rows[side].replaceChildren(...view.made[side]);
}

/** @param {View} view */
function draw(view) {
  const { header, root } = view;
  const { words } = header;
  const nothing = header.shape.includes(0);
  view.sheet.hidden = view.bar.hidden = nothing;
  view.empty.hidden = !nothing;
  say(view.empty, words.empty);
  if (nothing) return;
  view.theme = themeOf(root);
  view.focus = view.hovered ?? (view.selected === null ? null : { side: "query", index: view.selected });
  say(view.save, words.save_png);
  drawWords(view);
  const box = (/** @type {HTMLElement} */ made) => ({ left: made.offsetLeft, top: made.offsetTop, width: made.offsetWidth, height: made.offsetHeight });
  view.boxes = { key: view.made.key.map(box), query: view.made.query.map(box) };
  drawLines(view);
  say(view.reading, view.focus ? spoken(view, view.focus) : `${legend(view)} ${words.point}`);
  view.how.hidden = !header.decided.length;
  if (!view.how.firstChild) view.how.append(explained(header.how, words.help));
}

/** @param {View} view */
function drawWords(view) {
  const { header, focus, theme } = view;
  const { words } = header;
  const [red, green, blue] = rgb(theme.primary);
  const lit = new Map(focus ? across(view, focus).map(({ index, weight }) => [index, weight]) : []);
  for (const side of /** @type {const} */ (["key", "query"])) {
    const about = { key: words.source, query: words.target }[side];
    view.rows[side].setAttribute("aria-label", fill(about, { language: header[side].language }));
    view.made[side].forEach((made, index) => {
      const weight = focus && focus.side !== side ? (lit.get(index) ?? 0) : 0;
      const light = `rgb(${red} ${green} ${blue} / ${(0.6 * weight).toFixed(3)})`;
      made.style.backgroundImage = weight > 0.02 ? `linear-gradient(${light}, ${light})` : "";
      made.classList.toggle("focus", focus?.side === side && focus.index === index);
      made.setAttribute("tabindex", index === view.current[side] ? "0" : "-1");
      made.setAttribute("aria-label", spoken(view, { side, index }));
      if (side === "query") made.setAttribute("aria-pressed", String(view.selected === index));
    });
  }
}

/** @param {View} view */
function drawLines(view) {
  const { lines, sheet, theme } = view;
  lines.setAttribute("width", String(sheet.clientWidth));
  lines.setAttribute("height", String(sheet.clientHeight));
  const ruler = rulerOf();
  lines.replaceChildren(...sceneOf(view).flatMap((item) => nodeOf(item, ruler, theme.font) ?? []));
}

/** @param {View} view */
function listen(view) {
  const { sheet } = view;
  followWords(sheet, (position) => hover(view, position), ({ side, index }) => (view.current[side] = index));
  sheet.onclick = (event) => {
    const position = positionOf(event.target);
    if (!position) return;
    view.current[position.side] = position.index;
    if (position.side === "query") pick(view, position.index);
    else hover(view, position);
  };
  sheet.onkeydown = (event) => {
    const position = positionOf(event.target);
    if (position && move(view, position, event.key)) event.preventDefault();
  };
}

/**
 * @param {View} view
 * @param {Position | null} position
 */
function hover(view, position) {
  view.hovered = position;
  view.draw();
}

/**
 * Keep a written word, or let it go if it is kept.
 * @param {View} view
 * @param {number} query
 */
function pick(view, query) {
  view.selected = view.selected === query ? null : query;
  view.send("picked", { query });
  view.draw();
}

/**
 * Arrow keys: left and right within a sentence, up and down across, Home and End to its ends.
 * @param {View} view
 * @param {Position} position
 * @param {string} key
 */
function move(view, { side, index }, key) {
  const last = view.made[side].length - 1;
  const within = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last }[key];
  /** @type {Side | undefined} */
  const other = key === "ArrowUp" && side === "query" ? "key" : key === "ArrowDown" && side === "key" ? "query" : undefined;
  if (other) {
    const most = across(view, { side, index })[0]?.index ?? Math.min(index, view.made[other].length - 1);
    view.made[other][most].focus();
  } else if (within !== undefined) view.made[side][Math.min(Math.max(within, 0), last)].focus();
  return other !== undefined || within !== undefined;
}
