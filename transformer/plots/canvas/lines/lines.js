// Two sequences of words joined by the lines of a head: who looks at whom. They are sentences, keys above queries (bitext),
// or two columns of tokens, queries beside keys (head view). Point at a word to see its lines alone; a click keeps a query.

import { agreement, decidedElsewhere, MASKED, rowOf, strongestOf } from "../shared/cells.js";
import { headColour, NAN, rgb, themeOf } from "../shared/colours.js";
import { component } from "../shared/component.js";
import { layerOf, toggled, weightsOf } from "../shared/local.js";
import { button, element, explained, say, svg, toolbar } from "../shared/page.js";
import { rulerOf, savePicture, showLegend } from "../shared/saved.js";
import { nodeOf } from "../shared/scene.js";
import { counted, fill, listed, same, written } from "../shared/words.js";

const LEAST = 0.04; // weight of the thinnest line
const STRONG = { from: 24, least: 0.25 }; // so many queries show strong lines alone while no word is in focus
const LINES = 1500; // at most
const SPOKEN = { most: 3, least: 0.1 }; // words that are named, and the weight of a further one
const ROW = 24; // CSS pixels of a token in a column
const LANES = 14; // CSS pixels over which the lines of several heads spread at a token

/** @typedef {"query" | "key"} Side */
/** @typedef {{ side: Side, index: number }} Position A word. */
/** @typedef {{ left: number, top: number, width: number, height: number }} Box */
/** @typedef {{ head: number, query: number, key: number, weight: number }} Line */
/** @typedef {import("../shared/scene.js").Item} Item */

/** @typedef {{ texts: string[], name: string, attached: boolean[], special: boolean[] }} Words `name` is a language or a column */

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
 * @property {Record<"save_png" | "save_svg" | "masked" | "nan" | "empty" | "solid" | "coloured" | "dotted" | "above" | "agree" | "none" | "unknown" |
 *   "point" | "help" | "source" | "target" | "looked" | "looked_within" | "from" | "from_within" | "weighted" | "listed" | "nothing" |
 *   "nobody" | "same" | "other" | "undecided" | "decides", string>} words
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
 * `all` are the weights of each head where the mean is looked at in columns, `selected` is the query that is kept, `focus`
 * the word that is lit; `isNew` until what was received is drawn.
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
  const rows = { key: element("div", "source", null, { role: "group" }), query: element("div", "target", null, { role: "group" }) };
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
    const made = element(side === "query" ? "button" : "span", "word", null, { "data-side": side, "data-index": index });
    made.setAttribute(side === "query" ? "type" : "role", side === "query" ? "button" : "img");
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
  const box = (/** @type {HTMLElement} */ made) => ({ left: made.offsetLeft, top: made.offsetTop, width: made.offsetWidth, height: made.offsetHeight });
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
      if (columns) say(made.children[1], lit ? (weight === MASKED ? words.masked : written(weight, 3, words.nan)) : "");
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
  /** @type {Side | undefined} */
  const other = key === toKey && side === "query" ? "key" : key === toQuery && side === "key" ? "query" : undefined;
  if (other) {
    const most = across(view, { side, index })[0]?.index ?? Math.min(index, view.made[other].length - 1);
    view.made[other][most].focus();
  } else if (within !== undefined) view.made[side][Math.min(Math.max(within, 0), last)].focus();
  return other !== undefined || within !== undefined;
}

/** @typedef {Pick<View, "header" | "weights"> & Partial<Pick<View, "all" | "columns">>} Shown */

/**
 * The weights between a word and each word across.
 * @param {Shown} view
 * @param {Position} position
 */
function weightsAcross({ header: { shape: [queries, keys] }, weights }, { side, index }) {
  if (side === "query") return rowOf(weights, keys, index);
  return Float32Array.from({ length: queries }, (_, query) => weights[query * keys + index]);
}

/**
 * The words across from a position with their weights, the strongest first; what is masked or no number is left out.
 * @param {Shown} view
 * @param {Position} position
 */
export function across(view, position) {
  const all = Array.from(weightsAcross(view, position), (weight, index) => ({ index, weight }));
  return all.filter(({ weight }) => weight >= 0).sort((a, b) => b.weight - a.weight);
}

/**
 * The weight from which on a line is drawn.
 * @param {Shown} view
 * @param {Position | null} focus
 */
function leastOf({ header: { shape: [queries] } }, focus) {
  return queries > STRONG.from && !focus ? STRONG.least : LEAST;
}

/**
 * Whether a line is one of the word in focus, where there is one.
 * @param {{ query: number, key: number }} line
 * @param {Position | null} focus
 */
function belongs(line, focus) {
  return !focus || line[focus.side] === focus.index;
}

/**
 * The lines to draw, the strongest last, those that are no number before them: all, or those of the word in focus.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function chosen(view, focus) {
  const [queries, keys] = view.header.shape;
  const least = leastOf(view, focus);
  /** @type {Line[]} */
  const lines = [];
  (view.all ?? view.weights).forEach((weight, at) => {
    if (weight < least) return;
    const line = { head: Math.floor(at / (queries * keys)), query: Math.floor(at / keys) % queries, key: at % keys, weight };
    if (belongs(line, focus)) lines.push(line);
  });
  const rank = (/** @type {Line} */ { weight }) => (Number.isNaN(weight) ? 0 : weight);
  return lines.sort((a, b) => rank(a) - rank(b)).slice(-LINES);
}

/**
 * The dotted lines: from each query that a key decides to that one, where one head is shown that looks at another most.
 * @param {Shown} view
 * @param {Position | null} focus
 */
export function dotted({ header, weights, all }, focus) {
  return all ? [] : decidedElsewhere(header.decided, weights, header.shape[1]).filter((line) => belongs(line, focus));
}

/**
 * All lines, in the sheet's own coordinates: from under a key to above a query, or from a query across to a key. They grow
 * with their weight, and are fainter while no word is in focus, since then all are there.
 * @param {Shown & Pick<View, "focus" | "boxes" | "theme">} view
 * @returns {Item[]}
 */
export function sceneOf(view) {
  const { header: { shape: [queries, keys] }, focus, boxes, theme, columns, all } = view;
  const heads = all ? all.length / (queries * keys) : 1;
  const line = (/** @type {{ query: number, key: number, head?: number }} */ { query, key, head = 0 }) => {
    const [source, target] = [boxes.key[key], boxes.query[query]];
    if (!columns) {
      const from = { x0: source.left + source.width / 2, y0: source.top + source.height };
      return /** @type {const} */ ({ kind: "line", down: true, ...from, x1: target.left + target.width / 2, y1: target.top });
    }
    const lane = ((head + 0.5) / heads - 0.5) * (heads > 1 ? LANES : 0);
    const from = { x0: target.left + target.width, y0: target.top + target.height / 2 + lane };
    return /** @type {const} */ ({ kind: "line", ...from, x1: source.left, y1: source.top + source.height / 2 + lane });
  };
  const [least, growth] = focus ? [0.25, 0.75] : [0.08, 0.62];
  return [
    ...chosen(view, focus).map((one) => {
      if (Number.isNaN(one.weight)) return { ...line(one), colour: NAN, alpha: 0.6, width: 2, dash: [4, 4] };
      const weight = Math.min(one.weight, 1);
      const width = (1 + 4 * weight) * (columns ? 0.6 : 1);
      return { ...line(one), colour: headColour(one.head, theme, heads), alpha: least + growth * weight, width, dash: null };
    }),
    ...dotted(view, focus).map((one) => ({ ...line(one), colour: theme.text, alpha: 0.85, width: 3, dash: [0.1, 7] })),
  ];
}

/**
 * Which colour is which head's, where there are several.
 * @param {View} view
 * @returns {import("../shared/saved.js").Legend}
 */
function coloursOf({ header: { shape: [queries, keys] }, all, theme }) {
  const heads = all ? all.length / (queries * keys) : 0;
  /** @type {import("../shared/saved.js").Legend["marks"]} */
  const marks = Array.from({ length: heads }, (_, head) => [
    `H${head}`, (x, y, side) => [{ kind: "box", x, y, width: side, height: side, colour: headColour(head, theme, heads) }],
  ]);
  return { name: "", ticks: [], marks, note: "" };
}

/**
 * What the lines are, and how often the head looked where it is decided.
 * @param {Shown} view
 */
export function legend(view) {
  const { head, words, decided, asked, shape } = view.header;
  const agreed = asked ? agreement(decided, view.weights, shape[1], [words.agree, words.none, words.unknown]) : "";
  const solid = view.all ? words.coloured : fill(words.solid, { head });
  const left = view.columns ? fill(words.above, { least: leastOf(view, null) }) : "";
  return [solid, left, dotted(view, null).length ? words.dotted : "", agreed].filter(Boolean).join(" ");
}

/**
 * One sentence about a position, and one about what decided it, where that is known.
 * @param {Shown} view
 * @param {Position} position
 */
export function spoken(view, position) {
  const decided = (position.side === "query" ? decides : decidedBy)(view, position.index);
  return [looked(view, position), decided].filter(Boolean).join(" ");
}

/**
 * @param {Shown} view
 * @param {Position} position
 */
function looked(view, position) {
  const { words, head, within, query, key } = view.header;
  const other = position.side === "query" ? key : query;
  const found = across(view, position).filter(({ weight }, order) => weight >= SPOKEN.least || (!order && position.side === "query"));
  const each = found.slice(0, SPOKEN.most).map(({ index, weight }) => {
    return fill(words.weighted, { word: other.texts[index], weight: weight.toFixed(2) });
  });
  const word = view.header[position.side].texts[position.index];
  if (!each.length) return fill(position.side === "query" ? words.nothing : words.nobody, { word, head });
  const said = { word, head, listed: listed(each, words.listed) };
  if (position.side === "key") return fill(within ? words.from_within : words.from, said);
  return fill(within ? words.looked_within : words.looked, said);
}

/**
 * Which key decides a query: the one that was looked at most, another one, or none.
 * @param {Shown} view
 * @param {number} query
 */
function decides(view, query) {
  const { words, decided, key: source, query: target } = view.header;
  if (!decided[query] || target.special[query]) return "";
  const [key, nats] = decided[query];
  const said = { word: target.texts[query], nats: nats.toFixed(2), times: timesOf(nats) };
  if (key < 0) return fill(words.undecided, said);
  const most = across(view, { side: "query", index: query })[0]?.index;
  return fill(most === key ? words.same : words.other, { ...said, source: source.texts[key] });
}

/**
 * Which queries a key decides.
 * @param {Shown} view
 * @param {number} key
 */
function decidedBy({ header: { words, decided, query: target } }, key) {
  const found = decided.flatMap(([one], query) => (one === key ? [target.texts[query]] : []));
  return found.length ? fill(words.decides, { listed: listed(found, words.listed) }) : "";
}

/**
 * How many times less likely a word is that loses so many nats.
 * @param {number} nats
 */
export function timesOf(nats) {
  const times = Math.exp(Math.max(nats, 0));
  return times < 10 ? times.toFixed(1) : counted(Number(times.toPrecision(2)));
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
