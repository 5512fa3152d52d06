// Small things that every component does with the page: elements, options from Python, files to save.

/** The event that tells of new options of a component; its detail names the instance. */
export const POSTED = "heedmap-options";

/**
 * A new element; `text` is set as text, never as markup.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [className]
 * @param {string | null} [text]
 * @param {Record<string, string | number>} [attributes]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, className, text, attributes = {}) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

/**
 * A new element of an SVG; `text` is set as text, never as markup.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {string} [text]
 * @returns {SVGElement}
 */
export function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

/**
 * A canvas's pen.
 * @param {HTMLCanvasElement} canvas
 */
export function pen(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}

/**
 * The element that has the keyboard, in the shadow tree or page that `node` belongs to.
 * @param {Node} node
 * @returns {Element | null}
 */
export function focusedBeside(node) {
  return /** @type {Document | ShadowRoot} */ (node.getRootNode()).activeElement ?? null;
}

/**
 * Write `text` into `node` only if it is news, so that a screen reader does not say the same again.
 * @param {Node} node
 * @param {string} text
 */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * A map that every script of the page finds: the options of instances, the records, the scripts that have arrived.
 * @param {"heedmapOptions" | "heedmapRecords" | "heedmapScripts"} name
 * @returns {Map<string, any>}
 */
export function kept(name) {
  const page = /** @type {Record<string, any>} */ (/** @type {unknown} */ (window));
  return (page[name] ??= new Map());
}

/**
 * Call `changed` with this instance's options now, if they are there, and whenever options.js posts new ones.
 * @param {string} instance
 * @param {(options: any) => void} changed
 */
export function onOptions(instance, changed) {
  const options = () => kept("heedmapOptions");
  const listener = (/** @type {Event} */ event) => {
    if (/** @type {CustomEvent} */ (event).detail === instance) changed(options().get(instance));
  };
  window.addEventListener(POSTED, listener);
  if (options().has(instance)) changed(options().get(instance));
  return () => window.removeEventListener(POSTED, listener);
}

/**
 * A toolbar button.
 * @param {string} label
 * @param {() => void} pressed
 */
export function button(label, pressed) {
  const made = element("button", "button", label, { type: "button" });
  made.onclick = pressed;
  return made;
}

/**
 * A row of buttons that is one stop of the Tab key, `entry`; the arrows lead to the others.
 * @param {HTMLElement} entry
 * @param {HTMLElement[]} buttons
 */
export function toolbar(entry, ...buttons) {
  const made = element("div", "tools", null, { role: "toolbar" });
  made.append(...buttons);
  const stop = (/** @type {EventTarget | null} */ at) => buttons.forEach((one) => (one.tabIndex = one === at ? 0 : -1));
  stop(entry);
  made.addEventListener("focusin", ({ target }) => stop(target));
  made.addEventListener("focusout", () => stop(entry));
  made.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const shown = buttons.filter((one) => one.checkVisibility());
    shown.at((shown.indexOf(/** @type {HTMLElement} */ (event.target)) + step) % shown.length)?.focus();
    event.preventDefault();
  };
  return made;
}

/**
 * Give a canvas a size in CSS pixels; returns its pen in the same units. What was drawn is gone.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {number} wanted pixels a unit
 */
export function resized(canvas, width, height, wanted) {
  const ratio = pixelRatio(width, height, wanted);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = pen(canvas);
  context.scale(ratio, ratio);
  return context;
}

/** The screen's pixels for one CSS pixel of what is drawn: a page that is presented is enlarged. */
export function screenRatio() {
  return Math.max(window.devicePixelRatio || 1, 1) * enlarged();
}

/** How many times larger a page that is presented is shown than it is laid out; 1 for any other page. */
export function enlarged() {
  return Number(document.documentElement.style.getPropertyValue("--present-zoom")) || 1;
}

/**
 * Let the user keep `blob` as a file.
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const link = element("a", "", "", { download: name });
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * Largest whole-picture canvas that browsers agree on, as a factor of at most `wanted` pixels per unit.
 * @param {number} width
 * @param {number} height
 */
export function pixelRatio(width, height, wanted = 2) {
  return Math.min(wanted, 16_000 / Math.max(width, height), Math.sqrt(120_000_000 / (width * height)));
}

/**
 * What measures texts: a canvas's pen, or anything with its `measureText`.
 * @typedef {{ measureText: (text: string) => { width: number } }} Ruler
 */

/**
 * `text`, shortened with an ellipsis to at most `width` units in the ruler's font; whole characters only.
 * @param {Ruler} ruler
 * @param {string} text
 * @param {number} width
 */
export function shortened(ruler, text, width) {
  if (ruler.measureText(text).width <= width) return text;
  const characters = [...text];
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const fits = ruler.measureText(`${characters.slice(0, middle).join("")}…`).width <= width;
    [low, high] = fits ? [middle, high] : [low, middle - 1];
  }
  return `${characters.slice(0, low).join("")}…`;
}

/** A word, or a Chinese character, with the spaces before it and the marks that may not begin a line behind it. */
const PIECE = / *(?:[\u2e80-\u9fff\uff00-\uffef]|[^ \u2e80-\u9fff\uff00-\uffef]+)[，。：；、！？）”]*/g;

/**
 * `text` in lines of at most `width` units in the ruler's font. A line breaks at a space, or before or after a Chinese
 * character; a longer word is shortened.
 * @param {Ruler} ruler
 * @param {string} text
 * @param {number} width
 */
export function wrapped(ruler, text, width) {
  /** @type {string[]} */
  const lines = [];
  for (const piece of text.match(PIECE) ?? []) {
    const longer = `${lines.at(-1) ?? ""}${piece}`;
    if (lines.length && ruler.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(shortened(ruler, piece.trimStart(), width));
  }
  return lines;
}

/**
 * A question mark that says more when it is pointed at or reached.
 * @param {string} help
 * @param {string} name
 */
export function explained(help, name) {
  const mark = element("span", "help", "?", { tabindex: "0", role: "img", "aria-label": `${name}: ${help}` });
  mark.append(element("span", "tip", help, { "aria-hidden": "true" }));
  return mark;
}
