// Queries and keys of one head over many sentences: point at one to see its token, its sentence, and what it looks at.

import { themeOf } from "../../../transformer/canvas/shared/colours.js";
import { component } from "../../../transformer/canvas/shared/component.js";
import { button, element, resized, say, screenRatio } from "../../../transformer/canvas/shared/page.js";
import { makeChoices } from "./choices.js";
import { saveVectors } from "./files.js";
import { drawFocus, drawPoints, mark, meanings, placed } from "./plot.js";
import { nearest, numberOf, pointsOf, stepped } from "./points.js";
import { sentenceOf, spoken } from "./sentences.js";

const REACH = 14; // pixels from the pointer to a point
const TALLEST = 620;
const MAGNIFIED = 1.6;
const LARGEST = 40;

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {import("./points.js").Sentence[]} sentences
 * @property {string[]} classes
 * @property {import("./choices.js").Owned | null} owned
 * @property {string} file_name
 * @property {import("../../../transformer/canvas/shared/saved.js").About} about
 * @property {Record<"save_png" | "hint" | "plane" | "queries" | "keys" | "beginning" | "middle" | "end" | "larger" |
 *   "smaller" | "whole" | "weighted" | "listed" | "query_looks" | "query_alone" | "key_seen" | "key_alone", string>} words
 */

/** @typedef {import("./choices.js").Choice & { kept: import("./points.js").Point | null }} Options */

/**
 * @typedef {import("../../../transformer/canvas/shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   places: Float32Array<ArrayBuffer>,
 *   classes: Uint8Array<ArrayBuffer>,
 *   weights: Float32Array<ArrayBuffer>,
 *   held: import("./points.js").Held,
 *   options: Options,
 *   theme: import("../../../transformer/canvas/shared/colours.js").Theme,
 *   size: { width: number, height: number },
 *   at: Float32Array<ArrayBuffer>,
 *   zoom: number,
 *   middle: [number, number] | null,
 *   hovered: number | null,
 *   kept: number | null,
 *   focus: number | null,
 *   painted: string,
 * }} View
 * `focus` is the point that is lit; `painted` says what the canvas of all points shows, so that it is drawn once.
 */

export default component("vectors", (frame) => {
  /** @type {Partial<View>} */
  const start = { zoom: 1, middle: null, hovered: null, kept: null, focus: null, painted: "", size: { width: 0, height: 0 } };
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), start));
  view.options = { colour: "side", word: "", kept: null };
  view.save.onclick = () => saveVectors(view);
  view.larger.onclick = () => magnify(view, MAGNIFIED);
  view.smaller.onclick = () => magnify(view, 1 / MAGNIFIED);
  view.whole.onclick = () => magnify(view, 0);
  listen(view);
  const choices = makeChoices((choice) => {
    view.options = { ...view.options, ...choice };
    view.draw();
  });
  view.root.prepend(choices.root);
  return {
    receive: ({ header, arrays }) => {
      Object.assign(view, { header, ...arrays, held: pointsOf(header.sentences) });
      choices.receive(header.owned);
      Object.assign(view, { zoom: 1, middle: null, hovered: null, painted: "" });
      view.kept = numberOf(view.held, header.sentences, view.options.kept);
    },
    adopt: ({ kept }) => {
      view.options = { ...view.options, kept };
      view.kept = numberOf(view.held, view.header.sentences, kept);
    },
    draw: () => draw(view),
    close: choices.close,
  };
});

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const [all, lit] = [element("canvas"), element("canvas", "lit", null, { tabindex: 0, role: "application" })];
  const sheet = element("div", "sheet");
  sheet.append(all, lit);
  const legend = element("div", "legend");
  const reading = element("div", "reading", "", { "aria-live": "polite" });
  const sentence = element("div", "sentence");
  const [larger, smaller, whole, save] = [0, 1, 2, 3].map(() => button("", () => {}));
  const tools = element("div", "bar");
  tools.append(larger, smaller, whole, save);
  root.append(legend, sheet, reading, sentence, tools);
  return { all, lit, sheet, legend, reading, sentence, larger, smaller, whole, save };
}

/** @param {View} view */
function draw(view) {
  const { header, root, options } = view;
  const { words } = header;
  view.theme = themeOf(root);
  const width = root.clientWidth;
  const height = Math.min(TALLEST, Math.max(320, Math.round(0.62 * width)));
  view.focus = view.hovered ?? view.kept;
  say(view.larger, words.larger);
  say(view.smaller, words.smaller);
  say(view.whole, words.whole);
  say(view.save, words.save_png);
  view.lit.setAttribute("aria-label", words.plane);
  const shown = JSON.stringify([width, height, screenRatio(), view.zoom, view.middle, options.colour, options.word, view.theme]);
  if (shown !== view.painted) {
    view.painted = shown;
    view.size = { width, height };
    view.at = placed(view, width, height);
    view.sheet.style.height = `${height}px`;
    drawPoints(resized(view.all, width, height, screenRatio()), view, view.at);
    drawLegend(view);
  }
  drawFocus(resized(view.lit, width, height, screenRatio()), view, view.at, width);
  say(view.reading, view.focus === null ? words.hint : spoken(view, view.focus));
  say(view.sentence, view.focus === null ? "" : sentenceOf(view, view.focus));
  root.dataset.points = String(view.held.points.length);
  root.dataset.focus = view.focus === null ? "" : JSON.stringify(view.held.points[view.focus]);
}

/** @param {View} view */
function drawLegend(view) {
  const entries = meanings(view).map(([name, colour], row) => {
    const entry = element("span", "entry");
    const swatch = element("canvas");
    const context = resized(swatch, 14, 14, screenRatio());
    context.fillStyle = colour;
    mark(context, view.options.colour === "side" && row === 0 ? "query" : "key", 7, 7, 5);
    entry.append(swatch, element("span", "", name));
    return entry;
  });
  view.legend.replaceChildren(...entries);
}

/** @param {View} view */
function listen(view) {
  const { lit } = view;
  const pointed = (/** @type {PointerEvent | MouseEvent} */ event) => {
    const box = lit.getBoundingClientRect();
    return nearest(view.at, event.clientX - box.left, event.clientY - box.top, REACH);
  };
  lit.onpointermove = (event) => hover(view, pointed(event));
  lit.onpointerleave = () => hover(view, null);
  lit.onclick = (event) => keep(view, pointed(event));
  lit.onkeydown = (event) => {
    const here = view.hovered ?? view.kept; // what is drawn may be a frame behind
    if (event.key === "Enter") keep(view, here);
    else if (event.key === "Escape") keep(view, null);
    else {
      const to = stepped(view.held, view.header.sentences, here, event.key);
      if (to === null) return;
      hover(view, to);
    }
    event.preventDefault();
  };
  lit.onblur = () => hover(view, null);
}

/**
 * @param {View} view
 * @param {number | null} number
 */
function hover(view, number) {
  if (number === view.hovered) return;
  view.hovered = number;
  view.draw();
}

/**
 * Keep a point, or let it go if it is kept or there is none.
 * @param {View} view
 * @param {number | null} number
 */
function keep(view, number) {
  const before = view.kept;
  view.kept = number === before ? null : number;
  if (view.kept === null) view.hovered = null;
  if (view.kept !== before) view.send("kept", view.kept === null ? { side: "" } : view.held.points[view.kept]);
  view.draw();
}

/**
 * Magnify around the point in focus, else around the middle; 0 shows all again.
 * @param {View} view
 * @param {number} factor
 */
function magnify(view, factor) {
  view.zoom = factor ? Math.min(Math.max(view.zoom * factor, 1), LARGEST) : 1;
  if (view.zoom === 1) view.middle = null;
  else if (view.focus !== null) view.middle = [view.places[2 * view.focus], view.places[2 * view.focus + 1]];
  view.draw();
}
