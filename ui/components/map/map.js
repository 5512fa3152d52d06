// The whole model as towers: point at a part to read it, open it, and step from word to word.

import { themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { button, element, focusedBeside, say, shortened, svg } from "../../../transformer/plots/canvas/shared/page.js";
import { rulerOf, savePicture } from "../../../transformer/plots/canvas/shared/saved.js";
import { fill } from "../../../transformer/plots/canvas/shared/words.js";
import { makePlayer } from "../shared/player.js";
import { headAt } from "./heads.js";
import { layoutOf } from "./layout.js";
import { numbersOf } from "./numbers.js";
import { build } from "./scene.js";

const ABOVE = 226; // CSS pixels of the page above the map
const PANEL = 900; // CSS pixels of the window up to which an open part stands below the map
const SMALLEST = 0.86; // how far the map may shrink to fit the screen
/** What a picture keeps of an element's style. */
const KEPT = [
  "fill", "fill-opacity", "stroke", "stroke-width", "font-family", "font-size", "font-weight", "image-rendering",
];

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {import("./layout.js").TowerHeader[]} towers
 * @property {string[][]} axes
 * @property {import("./numbers.js").PartHeader[]} parts
 * @property {{ labels: string[], attached: boolean[], next: [string, number][][], title: string, written: boolean,
 *   decided: number[][] }} steps
 * @property {string} about
 * @property {string} headline with a place for the word of the step
 * @property {string} legend
 * @property {string} folds
 * @property {string} file_name
 * @property {Record<"play" | "pause" | "step" | "all" | "layer" | "look" | "surest" | "sum" | "scale" | "active" |
 *   "adds" | "of_all" | "of_step" | "how" | "save_png", string>} words
 * @property {import("../../../transformer/plots/canvas/shared/saved.js").About} saved
 */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & ReturnType<typeof frameOf> & {
 *   header: Header,
 *   arrays: Record<string, any>,
 *   theme: import("../../../transformer/plots/canvas/shared/colours.js").Theme,
 *   layout: import("./layout.js").Layout,
 *   places: Map<number, import("./numbers.js").Place>,
 *   made: Map<number, SVGElement>,
 *   lights: number[],
 *   pinned: number | null,
 *   source: number,
 *   updates: (() => void)[],
 *   built: string,
 *   passing: boolean,
 *   step: number,
 *   opened: number | null,
 *   current: number,
 *   player: import("../shared/player.js").Player,
 *   goTo: (step: number) => void,
 *   short: (text: string, width: number) => string,
 * }} View
 * `current` is the part that takes part in the page's tab order; `lights` says how much each source word is looked at,
 * `source` is the one that the first tower speaks of: the one that is `pinned`, or looked at most; -1 for none.
 */

export default component("map", (frame) => {
  /** @type {Partial<View>} */
  const start = { step: 0, opened: null, current: 0, built: "", updates: [], lights: [], pinned: null, source: -1 };
  const view = /** @type {View} */ (Object.assign(frame, frameOf(frame.root), start));
  const first = () => (view.header.steps.written ? 0 : -1);
  view.player = makePlayer({
    count: () => view.header.steps.labels.length - first(),
    at: () => view.step - first(),
    show: (moment) => {
      view.step = moment + first();
      view.draw();
    },
    settled: (moment) => view.send("stepped", moment + first()),
  });
  view.goTo = (step) => {
    const last = view.header.steps.labels.length - 1;
    view.player.stop();
    view.step = Math.min(Math.max(step, first()), last);
    view.draw();
    view.send("stepped", view.step);
  };
  view.short = (text, width) => {
    view.ruler.font = `12px ${view.theme.font}`;
    return shortened(view.ruler, text, Math.max(width, 12));
  };
  view.bar.append(view.player.root, view.fold, view.save);
  view.save.onclick = () => saveMap(view);
  view.fold.onclick = () => view.send("folded", {});
  listen(view);
  /** @param {KeyboardEvent} event */
  const escaped = (event) => {
    const [at] = event.composedPath();
    const typing = at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement;
    if (event.key === "Escape" && view.opened !== null && !event.defaultPrevented && !typing) view.send("closed", {});
  };
  document.addEventListener("keydown", escaped);
  return {
    receive: ({ header, arrays }) => {
      Object.assign(view, { header, arrays, built: "" });
      view.step = Math.min(view.step, header.steps.labels.length - 1);
      if (view.current >= header.parts.length) view.current = 0;
    },
    adopt: (options) => {
      const before = view.opened;
      Object.assign(view, { step: options.step, opened: options.opened, pinned: options.source });
      if (view.opened !== null) view.current = view.opened;
      view.passing = before !== view.opened && view.built !== "";
    },
    draw: () => {
      draw(view);
      if (view.passing) passFocus(view);
      view.passing = false;
    },
    close: () => {
      view.player.stop();
      document.removeEventListener("keydown", escaped);
    },
  };
});

/**
 * The view's elements, still empty.
 * @param {HTMLElement} root
 */
function frameOf(root) {
  const bar = element("div", "bar");
  const about = element("p", "about");
  const sheet = /** @type {SVGSVGElement} */ (svg("svg", { class: "sheet", role: "group" }));
  const tip = element("div", "tip", null, { "aria-hidden": "true" });
  tip.hidden = true;
  const legend = element("details", "legend");
  const [how, key] = [element("summary"), element("p")];
  legend.append(how, key);
  bar.append(about);
  root.append(bar, sheet, tip, legend);
  return { bar, about, sheet, tip, how, key, fold: button("", () => {}), save: button("", () => {}), ruler: rulerOf() };
}

/** @param {View} view */
function draw(view) {
  const { root } = view;
  view.theme = themeOf(root);
  view.ruler.font = `13px ${view.theme.font}`;
  const measure = (/** @type {string} */ text) => view.ruler.measureText(text).width;
  view.lights = lightsOf(view);
  const brightest = view.lights.reduce((best, light, at) => (light > (view.lights[best] ?? 0) ? at : best), -1);
  view.source = view.pinned ?? brightest;
  const { layout, wide } = fitting(view, measure);
  const built = JSON.stringify([wide, view.theme, layout]);
  if (built !== view.built) {
    const focused = view.made?.get(view.current) === focusedBeside(root);
    view.layout = layout;
    build(view);
    view.built = built;
    view.sheet.style.width = `${root.clientWidth}px`;
    view.root.classList.toggle("beside", layout.beside && layout.free > 110);
    const share = root.clientWidth / wide;
    view.bar.style.maxWidth = layout.beside ? `${share * (layout.towers[0].width + layout.towers[0].x)}px` : "";
    if (!view.made.has(view.current)) view.current = 0;
    if (focused) view.made.get(view.current)?.focus();
  }
  view.updates.forEach((update) => update());
  for (const [part, made] of view.made) made.setAttribute("tabindex", part === view.current ? "0" : "-1");
  updateBar(view);
}

/**
 * The layout for the width there is, drawn larger or a little smaller where that fills the screen or fits on it.
 * @param {View} view
 * @param {(text: string) => number} measure
 */
function fitting({ header, root, opened, step, source }, measure) {
  const own = root.clientWidth;
  const isAside = opened !== null && header.towers.length === 1 && window.innerWidth > PANEL;
  const at = (/** @type {number} */ wide) => layoutOf(header, wide, measure, step, source, isAside);
  const layout = at(own);
  if (isAside) return { layout, wide: own };
  const fits = Math.max((window.innerHeight - ABOVE) / layout.height, layout.beside ? SMALLEST : 1);
  const zoom = Math.min(fits, Math.max(own / layout.natural, 1));
  return zoom === 1 ? { layout, wide: own } : { layout: at(own / zoom), wide: own / zoom };
}

/**
 * Lead the keyboard into the panel that has been opened, and back to the part that it was about.
 * @param {View} view
 */
function passFocus(view, tries = 60) {
  if (view.opened === null) view.made.get(view.current)?.focus({ preventScroll: true });
  else {
    const inside = document.querySelector(".st-key-close-part")?.querySelector("button");
    if (inside) inside.focus();
    else if (tries) setTimeout(() => passFocus(view, tries - 1), 50);
  }
}

/** @param {View} view */
function updateBar(view) {
  const { header, player, step } = view;
  const { labels, written } = header.steps;
  const names = written ? labels.map((name, number) => `${number + 1}. ${name}`) : [header.words.all, ...labels];
  const moments = names.map((name) => ({ name }));
  player.root.hidden = moments.length < 2;
  const said = { play: header.words.play, pause: header.words.pause, moments: header.words.step };
  player.update(moments, written ? step : step + 1, said);
  view.fold.hidden = !header.folds;
  say(view.fold, header.folds);
  say(view.save, header.words.save_png);
  say(view.how, header.words.how);
  say(view.key, header.legend);
  say(view.about, fill(header.headline, { word: labels[step] ?? "" }));
}

/**
 * How much the step looks at each source word: the mean of the surest heads of all cross-attentions, as shown.
 * @param {View} view
 */
function lightsOf({ header, arrays, step }) {
  const rows = header.towers.at(-1)?.rows.filter((row) => row.crosses && row.heads) ?? [];
  const lights = new Array(header.towers[0].words.length).fill(0);
  for (const row of rows) {
    const sure = arrays[`sure${row.name}`];
    if (step >= 0 && 3 * step < sure.length) lights[sure[3 * step + 1]] += sure[3 * step + 2] / rows.length;
  }
  return lights;
}

/** @param {View} view */
function listen(view) {
  const { sheet, tip } = view;
  const partOf = (/** @type {EventTarget | null} */ target) => {
    const found = target instanceof Element ? target.closest("[data-part]") : null;
    return found ? Number(found.getAttribute("data-part")) : null;
  };
  sheet.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch") show(view, partOf(event.target));
  });
  sheet.addEventListener("pointerleave", () => show(view, null));
  sheet.addEventListener("click", (event) => {
    const part = partOf(event.target);
    if (part !== null) open(view, part, headUnder(view, part, event));
  });
  sheet.addEventListener("focusin", (event) => {
    const part = partOf(event.target);
    if (part === null) return;
    view.current = part;
    for (const [number, made] of view.made) made.setAttribute("tabindex", number === part ? "0" : "-1");
    if (/** @type {Element} */ (event.target).matches(":focus-visible")) show(view, part);
  });
  sheet.addEventListener("focusout", () => (tip.hidden = true));
  view.root.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLButtonElement) return;
    const order = [...view.made.keys()].sort((one, other) => one - other);
    const at = order.indexOf(view.current);
    const moved = { ArrowUp: order[at + 1], ArrowDown: order[at - 1], Home: order[0], End: order.at(-1) }[event.key];
    const stepped = { ArrowRight: view.step + 1, ArrowLeft: view.step - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") open(view, view.current, null);
    else if (stepped !== undefined) view.goTo(stepped);
    else if (moved !== undefined) view.made.get(moved)?.focus();
    else return;
    event.preventDefault();
  });
}

/**
 * @param {View} view
 * @param {number} part
 * @param {number | null} head
 */
function open(view, part, head) {
  view.player.stop();
  view.tip.hidden = true;
  view.send("opened", { part, head });
}

/**
 * The head whose thumbnail is under the pointer.
 * @param {View} view
 * @param {number} part
 * @param {MouseEvent} event
 */
function headUnder({ layout, sheet }, part, event) {
  const box = sheet.getBoundingClientRect();
  const x = ((event.clientX - box.left) * layout.wide) / box.width;
  const y = ((event.clientY - box.top) * layout.height) / box.height;
  for (const { row, grid } of layout.towers.flatMap(({ rows }) => rows)) {
    if (!grid || !row.heads || !row.boxes.includes(part)) continue;
    return headAt(grid, row.heads.shape[0], x - grid.x, y - grid.y);
  }
  return null;
}

/**
 * Say what a part is beside it.
 * @param {View} view
 * @param {number | null} part
 */
function show(view, part) {
  const { tip, header, made, root } = view;
  const target = part === null ? null : made.get(part);
  tip.hidden = !target;
  if (part === null || !target) return;
  const { title, plain, formula, facts } = header.parts[part];
  tip.replaceChildren(
    element("div", "tip-title", title),
    ...(plain ? [element("div", "plain", plain)] : []),
    ...(formula ? [element("div", "formula", formula)] : []),
    ...numbersOf(view, part).map((text) => element("div", "number", text)),
    ...facts.map((text) => element("div", "fact", text)),
  );
  const [box, around] = [target.getBoundingClientRect(), root.getBoundingClientRect()];
  const left = Math.min(Math.max(box.left - around.left, 0), Math.max(root.clientWidth - tip.offsetWidth - 4, 0));
  const above = box.top - around.top - tip.offsetHeight - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > -60 ? above : box.bottom - around.top + 8}px`;
}

/**
 * Let the user keep the map as it stands on the page, with what the model is and where the picture is from.
 * @param {View} view
 */
async function saveMap({ sheet, header, theme, layout: { wide, height } }) {
  const picture = /** @type {SVGSVGElement} */ (sheet.cloneNode(true));
  const [own, copies] = [sheet.querySelectorAll("*"), picture.querySelectorAll("*")];
  own.forEach((one, number) => {
    const style = getComputedStyle(one);
    for (const name of KEPT) copies[number].setAttribute(name, style.getPropertyValue(name));
  });
  picture.setAttribute("width", String(wide));
  picture.setAttribute("height", String(height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  await image.decode();
  const shown = { items: [/** @type {const} */ ({ kind: "image", image, x: 0, y: 0, width: wide, height })], height };
  savePicture(header.file_name, theme, wide, header.saved, [shown]);
}
