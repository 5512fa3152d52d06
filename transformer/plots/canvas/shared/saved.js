// What a saved picture says of itself, alike in every component: its title, of what it is, and what its colours mean.

import { css, scale } from "./colours.js";
import { element, pen, resized, save, wrapped } from "./page.js";
import { drawingOf, paintScene, shifted } from "./scene.js";

const TITLE = { size: 15, line: 21 };
const LINE = { size: 12, line: 17 };
const BAR = { wide: 200, tall: 12, ticks: 20, steps: 64 };
const MARK = 14;
const GAP = 10;
const APART = 14; // from one mark of a legend to the next
const PAD = 16;

/** Where a bar of weights has numbers. @type {[text: string, position: number][]} */
export const TICKS = [0, 0.25, 0.5, 0.75, 1].map((weight) => [String(weight), weight]);

/** @typedef {import("./colours.js").Theme} Theme */

/** @typedef {import("./scene.js").Item} Item */

/** @typedef {{ items: Item[], height: number }} Block What is drawn from its upper left corner, and how high it is. */

/** @typedef {{ title: string, lines: string[], formulas?: string[] }} About Python writes it: About in about.py. */

/**
 * What the colours mean: a name, ticks from 0 to 1 along a bar of the `colour` at each share, marks that are no
 * weights, `wide` where they are not as high as wide, and a last sentence. There is no bar without ticks.
 * @typedef {object} Legend
 * @property {string} name
 * @property {(share: number) => number[]} [colour]
 * @property {[text: string, position: number][]} ticks
 * @property {[name: string, paint: (x: number, y: number, side: number) => Item[], wide?: number][]} marks
 * @property {string} note
 */

/**
 * A title and what stands below it, wrapped; of no height where nothing is said.
 * @param {CanvasRenderingContext2D} ruler
 * @param {About} about
 * @param {number} width
 * @param {Theme} theme
 * @returns {Block}
 */
export function titleOf(ruler, { title, lines }, width, theme) {
  /** @type {Item[]} */
  const items = [];
  let y = 0;
  for (const [index, said] of [title, ...lines].entries()) {
    const bold = index === 0;
    const { size, line } = bold ? TITLE : LINE;
    ruler.font = `${bold ? "600 " : ""}${size}px ${theme.font}`;
    for (const text of wrapped(ruler, said, width)) {
      const look = { room: width, colour: theme.text, size, bold };
      items.push({ kind: "text", text, x: 0, y: y + line / 2, align: "left", ...look });
      y += line;
    }
  }
  return { items, height: items.length ? y + GAP : 0 };
}

/**
 * A legend, from left to right and in as many rows as it takes; its bar is `wide`.
 * @param {import("./page.js").Ruler & { font?: string }} ruler
 * @param {Legend} legend
 * @param {number} width
 * @param {Theme} theme
 * @returns {Block & { width: number }}
 */
export function legendOf(
  ruler, { name, colour = scale, ticks, marks, note }, width, theme, wide = Math.min(BAR.wide, width),
) {
  ruler.font = `${LINE.size}px ${theme.font}`;
  const said = /** @type {const} */ ({ kind: "text", align: "left", room: width, colour: theme.text, size: LINE.size });
  const bar = (/** @type {number} */ left, /** @type {number} */ top) => [
    ...barOf(colour, left, top, wide, BAR.tall, BAR.steps),
    ...ticks.map(([text, position]) => {
      const own = ruler.measureText(text).width;
      const x = left + Math.min(Math.max(wide * position - own / 2, 0), wide - own);
      return { ...said, text, x, y: top + BAR.tall + 9 };
    }),
  ];
  const isApart = !ticks.length || wide + 5 + ruler.measureText(name).width > width;
  const nothing = () => [];
  /** @type {[text: string, paint: Legend["marks"][number][1], wide: number, tall: number][]} */
  const parts = [
    [isApart ? name : "", nothing, 0, MARK],
    [isApart ? "" : name, bar, ticks.length ? wide : 0, BAR.tall + BAR.ticks],
    ...marks.map(([text, paint, own = MARK]) => /** @type {typeof parts[number]} */ ([text, paint, own, MARK])),
    [note, nothing, 0, MARK],
  ];
  /** @type {Item[]} */
  const items = [];
  let [x, y, row, most] = [0, 0, 0, 0];
  for (const [text, paint, own, tall] of parts) {
    if (!text && !own) continue;
    const from = own && text ? own + 5 : own;
    const lines = wrapped(ruler, text, width - from);
    const taken = from + Math.max(0, ...lines.map((line) => ruler.measureText(line).width));
    if (x && x + taken > width) [x, y, row] = [0, y + row + 4, 0];
    items.push(...paint(x, y, MARK));
    for (const [order, line] of lines.entries()) {
      items.push({ ...said, text: line, x: x + from, y: y + MARK / 2 + order * LINE.line });
    }
    row = Math.max(row, tall, MARK + (lines.length - 1) * LINE.line);
    most = Math.max(most, x + taken);
    x += taken + APART;
  }
  return { items, height: x ? y + row + 8 : 0, width: most };
}

/**
 * A bar of colours.
 * @param {(share: number) => number[]} colour
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 * @returns {Item[]}
 */
export function barOf(colour, x, y, width, height, steps = 32) {
  const each = width / steps;
  return Array.from({ length: steps }, (_, step) => {
    const own = step < steps - 1 ? each + 0.5 : each;
    return { kind: "box", x: x + step * each, y, width: own, height, colour: css(colour(step / (steps - 1))) };
  });
}

/**
 * Show a legend on the page as a saved picture has it.
 * @param {HTMLElement} box
 * @param {Legend} legend
 * @param {number} room
 * @param {Theme} theme
 */
export function showLegend(box, legend, room, theme) {
  const { items, height, width } = legendOf(rulerOf(), legend, room, theme);
  box.replaceChildren(drawingOf(items, Math.ceil(width), height, theme.font));
}

/**
 * Let the user keep a picture: its title and lines, what is drawn, what its colours mean, and what is said below.
 * @param {string} name of the file
 * @param {Theme} theme
 * @param {number} width
 * @param {About} about
 * @param {Block[]} drawn below each other
 * @param {{ legend?: Legend, notes?: string[], kind?: "png" | "svg" }} more
 */
export function savePicture(name, theme, width, about, drawn, { legend, notes = [], kind = "png" } = {}) {
  const ruler = rulerOf();
  const meanings = legend ? [legendOf(ruler, legend, width, theme)] : [];
  const [head, foot] = [about, { title: "", lines: notes }].map((one) => titleOf(ruler, one, width, theme));
  const blocks = [head, ...drawn, ...meanings, foot];
  const [wide, high] = [width + 2 * PAD, blocks.reduce((sum, { height }) => sum + height, 2 * PAD)];
  /** @type {Item[]} */
  const items = [{ kind: "box", x: 0, y: 0, width: wide, height: high, colour: theme.background }];
  let y = PAD;
  for (const block of blocks) {
    for (const item of block.items) items.push(shifted(item, PAD, y));
    y += block.height;
  }
  if (kind === "svg") {
    const written = new XMLSerializer().serializeToString(drawingOf(items, wide, high, theme.font));
    return save(new Blob([written], { type: "image/svg+xml" }), `${name}.svg`);
  }
  const canvas = element("canvas");
  paintScene(resized(canvas, wide, high, 2), items, theme.font);
  return canvas.toBlob((blob) => blob && save(blob, `${name}.png`), "image/png");
}

/** A pen that measures texts. */
export function rulerOf() {
  return pen(element("canvas"));
}
