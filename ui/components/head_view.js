// Two columns of tokens joined by lines: who looks at whom, in any of one layer's heads.

import { decode } from "./blob.js";
import { makeChips, updateChips } from "./chips.js";
import { themeOf } from "./colours.js";
import { footer, numberText, readout } from "./head_view_words.js";
import { bars, layout, MASKED, mean, ROW, stroke, strongest } from "./lines.js";
import { button, element, onOptions, onceAFrame, timed } from "./page.js";
import { saveHeadView } from "./head_view_files.js";
import { listen } from "./head_view_events.js";
import { paintScene } from "./scene.js";
import { makeColumn, updateColumn } from "./tokens.js";
import { weightsOf } from "./weights.js";
import { adopt, focusOf, forget, newChoices, shownHeads } from "./choices.js";

const LINES = 2000; // strokes drawn at once, at most
const HEIGHT = 640; // CSS pixels; longer lists of tokens scroll
const views = new WeakMap(); // parentElement -> instance; a parent outlives many runs

export default function ({ data, parentElement, setTriggerValue }) {
  let view = views.get(parentElement);
  if (!view) {
    view = mount(parentElement);
    views.set(parentElement, view);
  }
  const run = ++view.run;
  view.send = setTriggerValue;
  receive(view, decode(data));
  return () => {
    if (view.run !== run) return; // a newer run uses this instance: Streamlit ends late runs after newer ones
    view.stop();
    view.resized.disconnect();
    view.root.remove();
    views.delete(parentElement);
  };
}

function mount(parent) {
  const view = {
    root: element("div", "atlas head-view"),
    run: 0,
    stop: () => {},
    choices: newChoices(),
    columns: { query: makeColumn("query"), key: makeColumn("key") },
    chips: [],
    lines: [],
    nan: [],
    measures: null,
  };
  const { root, columns } = view;
  view.chipBox = element("div", "chips", null, { role: "group", "aria-label": "heads" });
  view.titles = { query: element("div", "title query"), key: element("div", "title key") };
  view.canvas = element("canvas", "", null, { "aria-hidden": "true" });
  view.sheet = element("div", "sheet");
  view.scroller = element("div", "scroller");
  view.reading = element("div", "reading", "", { "aria-live": "polite" });
  view.footer = element("div", "footer");
  view.body = element("div", "body");
  view.empty = element("p", "empty", "There is no attention to show: the input has no heads or no tokens.");
  const bar = element("div", "bar");
  const tools = element("div", "tools");
  tools.append(...["PNG", "SVG"].map((kind) => button(`Save ${kind}`, () => saveHeadView(view, kind))));
  bar.append(view.chipBox, tools);
  const titles = element("div", "titles");
  titles.append(view.titles.query, view.titles.key);
  view.sheet.append(view.canvas, columns.query.box, columns.key.box);
  view.scroller.append(view.sheet);
  view.body.append(bar, titles, view.scroller, view.reading, view.footer);
  root.append(view.body, view.empty);
  parent.appendChild(root);
  view.draw = onceAFrame(() => timed(root, () => draw(view)));
  view.scroller.onscroll = view.draw;
  view.resized = new ResizeObserver(view.draw);
  view.resized.observe(root);
  view.scene = (active) => sceneOf(view, active);
  view.act = listen(view);
  return view;
}

/** Take new weights and labels; what the reader chose stays while the tokens and heads stay the same. */
function receive(view, received) {
  const { header } = received;
  const same = JSON.stringify([header.heads, header.query_labels, header.key_labels]);
  if (same !== view.same) {
    forget(view.choices);
    view.chips = makeChips(view.chipBox, header.heads, view.act.chips);
    view.scroller.scrollTop = 0;
    if (view.options) adopt(view.choices, view.options, header.shape[0]);
  }
  Object.assign(view, { same, header, weights: weightsOf(received), pointed: null });
  if (view.instance !== header.instance) {
    view.stop();
    view.instance = header.instance;
    view.stop = onOptions(header.instance, (options) => {
      view.options = options;
      adopt(view.choices, options, view.header.shape[0]);
      view.draw();
    });
  }
  view.draw();
}

function draw(view) {
  const { header, root, scroller, choices } = view;
  const nothing = header.shape.includes(0);
  view.body.hidden = nothing;
  view.empty.hidden = !nothing;
  if (nothing || !root.clientWidth) return;
  view.theme = themeOf(root);
  const [heads, queries, keys] = header.shape;
  const content = Math.max(queries, keys) * ROW;
  view.sheet.style.height = `${content}px`;
  scroller.style.height = `${Math.min(content, HEIGHT)}px`;
  const active = shownHeads(choices);
  const measures = layout(view.sheet.clientWidth, heads, active, longestToken(view));
  root.style.setProperty("--column", `${measures.column}px`);
  root.style.setProperty("--bars", `${measures.bars}px`);
  view.measures = measures;
  updateChips(view.chips, choices.active, view.theme);
  choose(view, active);
  drawTokens(view, active);
  drawCanvas(view, active);
  for (const side of ["query", "key"]) view.titles[side].textContent = header[`${side}_title`];
  const words = readout(view, active);
  if (view.reading.textContent !== words) view.reading.textContent = words;
  view.footer.textContent = footer(view, active);
}

/** The width of the longest token as it is written when it is in focus; measured once for these tokens. */
function longestToken(view) {
  const { header, theme } = view;
  if (view.measured?.same !== view.same || view.measured.font !== theme.font) {
    const context = view.canvas.getContext("2d");
    context.font = `700 14px ${theme.font}`;
    const widths = [...header.query_labels, ...header.key_labels].map((label) => context.measureText(label).width);
    view.measured = { same: view.same, font: theme.font, width: widths.reduce((a, b) => Math.max(a, b), 0) };
  }
  return view.measured.width;
}

/** Choose the lines anew only when something that decides them has changed. */
function choose(view, active) {
  const { choices, header, weights } = view;
  const focus = focusOf(view);
  const question = JSON.stringify([active, choices.threshold, focus]);
  if (view.question === question && view.answered === weights) return;
  Object.assign(view, strongest(weights, header.shape, active, choices.threshold, focus, LINES));
  Object.assign(view, { question, answered: weights, focus });
}

function drawTokens(view, active) {
  const { choices, columns, header, focus, scroller, weights } = view;
  const { scrollTop, clientHeight } = scroller;
  for (const side of ["query", "key"]) {
    const other = side === "query" ? "key" : "query";
    const look = (index) => {
      const [query, key] = side === "query" ? [index, focus?.index] : [focus?.index, index];
      const answers = focus?.side === other && active.length > 0;
      return {
        number: answers ? numberText(mean(weights, header.shape, active, query, key)) : "",
        locked: choices.locked?.side === side && choices.locked.index === index,
        focus: focus?.side === side && focus.index === index,
        paired: choices.pair?.[side === "query" ? 0 : 1] === index,
      };
    };
    const labels = header[`${side}_labels`];
    choices.current[side] = Math.min(choices.current[side], labels.length - 1);
    columns[side].box.setAttribute("aria-label", header[`${side}_title`]);
    updateColumn(columns[side], labels, choices.current[side], scrollTop, clientHeight, look);
  }
}

function drawCanvas(view, active) {
  const { canvas, scroller, measures, theme } = view;
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [measures.width, scroller.clientHeight];
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const top = scroller.scrollTop;
  const inView = (item) =>
    item.kind === "line" ? Math.max(item.y0, item.y1) > top && Math.min(item.y0, item.y1) < top + height : true;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
  paintScene(context, sceneOf(view, active).filter(inView), theme.font);
}

/** Everything that the canvas shows, in sheet coordinates: the same for the screen and for files. */
function sceneOf(view, active) {
  const { choices, header, lines, nan, measures, theme, weights } = view;
  const items = [...lines, ...nan].map((line) => stroke(line, measures, theme));
  const [, queries, keys] = header.shape;
  const [query, key] = choices.pair ?? [queries, keys];
  const weight = (head) => weights[(head * queries + query) * keys + key];
  const ofPair = query < queries && key < keys ? active.filter((head) => weight(head) !== MASKED) : [];
  if (ofPair.length) {
    const halo = stroke({ head: -1, query, key, weight: 1 }, measures, theme);
    items.push({ ...halo, colour: theme.primary, width: Math.min(ofPair.length * 3, 16) + 6, alpha: 0.25 });
  }
  const seen = ofPair.filter((head) => !(weight(head) < choices.threshold));
  items.push(...seen.map((head) => stroke({ head, query, key, weight: weight(head) }, measures, theme)));
  if (view.pointed) items.push(stroke(view.pointed, measures, theme, true));
  return [...items, ...bars(weights, header.shape, active, view.focus, measures, theme)];
}
