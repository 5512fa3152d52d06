// Two sequences of words joined by the lines of a head: who looks at whom. They are sentences, keys above queries
// (bitext), or two columns of tokens, queries beside keys (head view). Point at a word to see its lines alone; a click
// keeps a query.

import { MASKED, rowOf, strongestOf } from "../shared/cells.js";
import { rgb, themeOf } from "../shared/colours.js";
import { component } from "../shared/component.js";
import { layerOf, toggled, weightsOf } from "../shared/local.js";
import { button, element, explained, say, svg, toolbar } from "../shared/page.js";
import { rulerOf, savePicture, showLegend } from "../shared/saved.js";
import { nodeOf } from "../shared/scene.js";
import { fill, same, written } from "../shared/words.js";
import { across, coloursOf, sceneOf, weightsAcross } from "./scene.js";
import { legend, spoken } from "./spoken.js";

const ROW = 24; // CSS pixels of a token in a column

/** @typedef {import("./scene.js").Side} Side */
/** @typedef {import("./scene.js").Position} Position */
/** @typedef {{ left: number, top: number, width: number, height: number }} Box */

/**
 * `name` is a language or a column.
 * @typedef {{ texts: string[], name: string, attached: boolean[], special: boolean[] }} Words
 */

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {[number, number]} shape queries, keys
 * @property {Words} key the words above, or on the right
 * @property {Words} query the words below, or on the left
 * @property {string} head what the head is called within a sentence
 * @property {boolean} within whether both are the sentence that is read
 * @property {[key: number, nats: number][]} decided for each query the key that decides it; empty: not known
 * @property {boolean} asked whether it is known, or would be for whole words of a short sentence
 * @property {import("../shared/saved.js").About} about
 * @property {string} how how that was found
 * @property {string} file_name
 * @property {Record<"save_png" | "save_svg" | "masked" | "nan" | "empty" | "solid" | "coloured" | "dotted" | "above" |
 *   "agree" | "none" | "unknown" | "point" | "help" | "source" | "target" | "looked" | "looked_within" | "from" |
 *   "from_within" | "weighted" | "listed" | "nothing" | "nobody" | "same" | "other" | "undecided" |
 *   "decides", string>} words
 */

/**
 * @typedef {import("../shared/component.js").Frame & ReturnType<typeof build> & {
 *   columns: boolean,
 *   header: Header,
 *   weights: Float32Array<ArrayBuffer>,
 *   all: Float32Array<ArrayBuffer> | undefined,
 *   theme: import("../shared/colours.js").Theme,
 *   selected: number | null,
 *   hovered: Position | null,
 *   focus: Position | null,
 *   current: Record<Side, number>,
 *   made: Record<Side, HTMLElement[]>,
 *   boxes: Record<Side, Box[]>,
 *   isNew: boolean,
 * }} View
 * `all` are the weights of each head where the mean is looked at in columns, `selected` is the query that is kept,
 * `focus` the word that is lit; `isNew` until what was received is drawn.
 */

export const bitext = component("lines", (frame) => mounted(frame, false), localOf(false));
export const headView = component("lines", (frame) => mounted(frame, true), localOf(true));

/**
 * The lines of the page's record: those of the chosen head, whatever kind of attention it is of.
 * @param {boolean} columns
 * @returns {import("../shared/local.js").Local}
 */
export function localOf(columns) {
  return {
    seen(header, _, { kind, layer, head, pair }) {
      const weights = weightsOf(kind, layer, head);
      if (!weights) return null;
      const { heads, file_names, abouts, key, query, within } = header.sides[kind.name];
      const order = head ?? kind.heads;
      const said = {
        shape: [kind.queries.texts.length, kind.keys.texts.length],
        key: { ...key, texts: kind.keys.texts },
        query: { ...query, texts: kind.queries.texts },
        within,
        decided: kind.decided ?? [],
        asked: Boolean(kind.decided),
        head: heads[layer][order],
        file_name: file_names[layer][order],
        about: abouts[layer],
      };
      const all = columns && head === null && kind.heads > 1 ? layerOf(kind, layer) : undefined;
      return { header: { ...header, ...said }, arrays: { weights, all }, options: { selected: pair?.[0] ?? null } };
    },
    acted(_, { query }, choice) {
      const { kind, layer, head } = choice;
      const weights = weightsOf(kind, layer, head) ?? new Float32Array();
      return toggled(choice, query, strongestOf(rowOf(weights, kind.keys.texts.length, query)));
    },
  };
}

/**
 * @param {import("../shared/component.js").Frame} frame
 * @param {boolean} columns
 * @returns {import("../shared/component.js").Hooks}
 */
function mounted(frame, columns) {
  /** @type {Partial<View>} */
  const start = { columns, selected: null, hovered: null, focus: null };
  Object.assign(start, { made: { query: [], key: [] }, boxes: { query: [], key: [] } });
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root, columns), start));
  view.root.classList.add(columns ? "head-view" : "bitext");
  view.buttons.forEach((one, order) => (one.onclick = () => saveLines(view, order ? "svg" : "png")));
  listen(view);
  return {
    receive: (received) => receive(view, received),
    adopt: (options) => (view.selected = options.selected),
    draw: () => draw(view),
  };
}

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 * @param {boolean} columns
 */
function build(root, columns) {
  const rows = {
    key: element("div", "source", null, { role: "group" }),
    query: element("div", "target", null, { role: "group" }),
  };
  for (const row of Object.values(rows)) row.classList.add("words");
  const lines = svg("svg", { "aria-hidden": "true" });
  const parts = ["titles", "scroller", "sheet", "foot", "how", "legend"].map((name) => element("div", name));
  const [titles, scroller, sheet, foot, how, heads] = parts;
  const buttons = [button("", () => {}), button("", () => {})];
  const reading = element("div", "reading", "", { "aria-live": "polite" });
  const empty = element("p", "empty");
  titles.append(element("div"), element("div"));
  titles.hidden = !columns;
  sheet.append(...(columns ? [rows.query, lines, rows.key] : [rows.key, lines, rows.query]));
  scroller.append(sheet);
  foot.append(reading, how, toolbar(buttons[0], ...buttons));
  root.append(titles, scroller, heads, foot, empty);
  return { rows, lines, titles, scroller, sheet, reading, how, buttons, foot, heads, empty };
}

/**
 * Take a new head or other words; where the keyboard stands is kept while the words stay the same.
 * @param {View} view
 * @param {import("../shared/blob.js").Received} received
 */
function receive(view, { header, arrays }) {
  /** @type {Header | undefined} */
  const before = view.header;
  const stays = before && same(before.key.texts, header.key.texts) && same(before.query.texts, header.query.texts);
  Object.assign(view, { header, weights: arrays.weights, all: arrays.all, isNew: true });
  if (stays) return;
  Object.assign(view, { hovered: null, current: { query: 0, key: 0 } });
  for (const side of /** @type {const} */ (["key", "query"])) makeWords(view, side);
}

/**
 * @param {View} view
 * @param {Side} side
 */
function makeWords(view, side) {
  const { texts, attached, special } = view.header[side];
  view.made[side] = texts.map((text, index) => {
    const isQuery = side === "query";
    const made = element(isQuery ? "button" : "span", "word", null, { "data-side": side, "data-index": index });
    made.setAttribute(isQuery ? "type" : "role", isQuery ? "button" : "img");
    if (view.columns) made.title = text;
    made.append(element("span", "text", text, { dir: "auto" }), ...(view.columns ? [element("span", "number")] : []));
    made.classList.toggle("attached", Boolean(attached[index]));
    made.classList.toggle("special", Boolean(special[index]));
    return made;
  });
  view.rows[side].replaceChildren(...view.made[side]);
}

/** @param {View} view */
function draw(view) {
  const { header, root, foot, scroller, titles, empty, columns } = view;
  const { words, key, query } = header;
  const nothing = header.shape.includes(0);
  scroller.hidden = foot.hidden = nothing;
  empty.hidden = !nothing;
  say(empty, words.empty);
  if (nothing) return;
  view.theme = themeOf(root);
  view.focus = view.hovered ?? (view.selected === null ? null : { side: "query", index: view.selected });
  [query, key].forEach(({ name }, order) => say(titles.children[order], name));
  view.buttons.forEach((one, order) => say(one, [words.save_png, words.save_svg][order]));
  const isAlone = columns && query.texts.length === 1; // a single query stands beside what it looks at
  const first = isAlone ? strongestOf(view.weights) * ROW : 0;
  view.rows.query.style.paddingTop = `${first}px`;
  drawWords(view);
  if (view.isNew && first) scroller.scrollTop = first - scroller.clientHeight / 2;
  view.isNew = false;
  const box = (/** @type {HTMLElement} */ made) => (
    { left: made.offsetLeft, top: made.offsetTop, width: made.offsetWidth, height: made.offsetHeight }
  );
  view.boxes = { key: view.made.key.map(box), query: view.made.query.map(box) };
  drawLines(view);
  say(view.reading, view.focus ? spoken(view, view.focus) : `${legend(view)} ${words.point}`);
  showLegend(view.heads, coloursOf(view), root.clientWidth, view.theme);
  view.how.hidden = !header.decided.length || !header.how;
  if (!view.how.firstChild) view.how.append(explained(header.how, words.help));
}

/** @param {View} view */
function drawWords(view) {
  const { header, focus, theme, columns } = view;
  const { words } = header;
  const [red, green, blue] = rgb(theme.primary);
  for (const side of /** @type {const} */ (["key", "query"])) {
    const { name, texts } = header[side];
    const about = { key: words.source, query: words.target }[side];
    view.rows[side].setAttribute("aria-label", columns ? name : fill(about, { language: name }));
    const lit = focus && focus.side !== side ? weightsAcross(view, focus) : null;
    view.made[side].forEach((made, index) => {
      const weight = lit?.[index] ?? 0;
      const light = `rgb(${red} ${green} ${blue} / ${(0.6 * weight).toFixed(3)})`;
      made.style.backgroundImage = weight > 0.02 ? `linear-gradient(${light}, ${light})` : "";
      made.classList.toggle("focus", focus?.side === side && focus.index === index);
      made.tabIndex = index === view.current[side] ? 0 : -1;
      made.setAttribute("aria-label", index === view.current[side] ? spoken(view, { side, index }) : texts[index]);
      const number = weight === MASKED ? words.masked : written(weight, 3, words.nan);
      if (columns) say(made.children[1], lit ? number : "");
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

/**
 * The word that an element belongs to; null for anything else.
 * @param {EventTarget | null} target
 * @returns {Position | null}
 */
function positionOf(target) {
  const found = target instanceof Element ? target.closest("[data-side][data-index]") : null;
  if (!(found instanceof HTMLElement)) return null;
  return { side: found.dataset.side === "query" ? "query" : "key", index: Number(found.dataset.index) };
}

/**
 * What pointer and keyboard do; the word that the keyboard reaches is lit as far as that is seen.
 * @param {View} view
 */
function listen(view) {
  const { sheet } = view;
  const hover = (/** @type {Position | null} */ position) => {
    view.hovered = position;
    view.draw();
  };
  sheet.onpointerover = (event) => event.pointerType !== "touch" && hover(positionOf(event.target));
  sheet.onpointerleave = () => hover(null);
  sheet.addEventListener("focusin", ({ target }) => {
    const position = positionOf(target);
    if (!position) return;
    view.current[position.side] = position.index;
    if (/** @type {Element} */ (target).matches(":focus-visible")) hover(position);
  });
  sheet.addEventListener("focusout", () => hover(null));
  sheet.onclick = (event) => {
    const position = positionOf(event.target);
    if (!position) return;
    const { side, index } = position;
    view.current[side] = index;
    if (side === "key") return hover(position);
    view.selected = view.selected === index ? null : index;
    view.send("picked", { query: index });
    view.draw();
  };
  sheet.onkeydown = (event) => {
    const position = positionOf(event.target);
    if (position && move(view, position, event.key)) event.preventDefault();
  };
}

/**
 * Arrow keys: along the words of one side, and across; Home and End to its ends.
 * @param {View} view
 * @param {Position} position
 * @param {string} key
 */
function move(view, { side, index }, key) {
  const [up, down, left, right] = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
  const [back, on, toQuery, toKey] = view.columns ? [up, down, left, right] : [left, right, down, up];
  const last = view.made[side].length - 1;
  const within = { [back]: index - 1, [on]: index + 1, Home: 0, End: last }[key];
  const other = side === "query" ? "key" : "query";
  const crosses = key === (side === "query" ? toKey : toQuery);
  if (crosses) {
    const most = across(view, { side, index })[0]?.index ?? Math.min(index, view.made[other].length - 1);
    view.made[other][most].focus();
  } else if (within !== undefined) view.made[side][Math.min(Math.max(within, 0), last)].focus();
  return crosses || within !== undefined;
}

/**
 * Let the user keep what is shown: what it is of, both sides, the lines, and what they say.
 * @param {View} view
 * @param {"png" | "svg"} kind
 */
function saveLines(view, kind) {
  const { header, theme, sheet, focus, boxes, columns } = view;
  const width = sheet.clientWidth;
  const items = sceneOf(view);
  for (const side of /** @type {const} */ (["query", "key"])) {
    /** @type {"left" | "center" | "right"} */
    const align = !columns ? "center" : side === "query" ? "right" : "left";
    header[side].texts.forEach((text, index) => {
      const { left, top, width: wide, height } = boxes[side][index];
      const bold = focus?.side === side && focus.index === index;
      const x = { center: left + wide / 2, right: left + wide - 8, left: left + 8 }[align];
      const look = { room: columns ? wide : width, size: columns ? 14 : 17, align, bold, colour: theme.text };
      items.push({ kind: "text", text, x, y: top + height / 2, ...look });
    });
  }
  const notes = [focus ? spoken(view, focus) : legend(view)];
  const shown = { items, height: sheet.clientHeight + 18 };
  savePicture(header.file_name, theme, width, header.about, [shown], { legend: coloursOf(view), notes, kind });
}
