// What a saved picture says of itself, alike in every component: its title, of what it is, and what its colours mean.

import { css, scale } from "./colours.js";
import { element, pen, save, savePng, sheetOf, wrapped } from "./page.js";
import { paintScene, shifted, svgOf } from "./scene.js";

const TITLE = { size: 15, line: 21 };
const LINE = { size: 12, line: 17 };
const BAR = { wide: 200, tall: 12, ticks: 20, steps: 64 };
const MARK = 14;
const GAP = 10;
const PAD = 16;

/** @typedef {import("./colours.js").Theme} Theme */

/** @typedef {import("./scene.js").Item} Item */

/** @typedef {{ items: Item[], height: number }} Block What is drawn from its upper left corner, and how high it is. */

/** @typedef {{ title: string, lines: string[], formulas?: string[] }} About What Python says of the picture: About in about.py. */

/**
 * What the colours mean: a name, ticks from 0 to 1 along a bar of the `colour` at each share, marks that are no weights,
 * `wide` where they are not as high as wide, and a last sentence. There is no bar without ticks.
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
      items.push({ kind: "text", text, x: 0, y: y + line / 2, room: width, align: "left", colour: theme.text, size, bold });
      y += line;
    }
  }
  return { items, height: items.length ? y + GAP : 0 };
}

/**
 * Sentences below a picture.
 * @param {CanvasRenderingContext2D} ruler
 * @param {string[]} lines
 * @param {number} width
 * @param {Theme} theme
 */
export function notesOf(ruler, lines, width, theme) {
  return titleOf(ruler, { title: "", lines }, width, theme);
}

/**
 * The legend of a picture at this width; its bar is `wide`.
 * @param {CanvasRenderingContext2D} ruler
 * @param {Legend} legend
 * @param {number} width
 * @param {Theme} theme
 * @returns {Block}
 */
export function legendOf(ruler, { name, colour = scale, ticks, marks, note }, width, theme, wide = Math.min(BAR.wide, width - 2 * GAP)) {
  const [head, foot] = [notesOf(ruler, [name], width, theme), notesOf(ruler, [note], width, theme)];
  const said = /** @type {const} */ ({ kind: "text", align: "left", room: width, colour: theme.text, size: LINE.size });
  const items = [...head.items];
  ruler.font = `${LINE.size}px ${theme.font}`;
  for (let step = 0; ticks.length && step < BAR.steps; step++) {
    const [x, each] = [(wide * step) / BAR.steps, wide / BAR.steps + 0.5];
    items.push({ kind: "box", x, y: head.height, width: each, height: BAR.tall, colour: css(colour(step / (BAR.steps - 1))) });
  }
  for (const [text, position] of ticks) {
    const own = ruler.measureText(text).width;
    items.push({ ...said, text, x: Math.min(Math.max(wide * position - own / 2, 0), wide - own), y: head.height + BAR.tall + 9 });
  }
  let [x, y] = [0, head.height + (ticks.length ? BAR.tall + BAR.ticks : 0)];
  for (const [text, paint, own = MARK] of marks) {
    const taken = own + 5 + ruler.measureText(text).width;
    if (x && x + taken > width) [x, y] = [0, y + MARK + 4];
    items.push(...paint(x, y, MARK), { ...said, text, x: x + own + 5, y: y + MARK / 2 });
    x += taken + GAP;
  }
  if (marks.length) y += MARK + 8;
  items.push(...foot.items.map((item) => shifted(item, 0, y)));
  return { items, height: y + foot.height };
}

/**
 * Let the user keep a picture: its title and lines, what is drawn, and what is said below.
 * @param {string} name of the file
 * @param {Theme} theme
 * @param {number} width
 * @param {Block[]} blocks below each other
 * @param {"png" | "svg"} kind
 */
export function savePicture(name, theme, width, blocks, kind = "png") {
  const [wide, high] = [width + 2 * PAD, blocks.reduce((sum, { height }) => sum + height, 2 * PAD)];
  /** @type {Item[]} */
  const items = [{ kind: "box", x: 0, y: 0, width: wide, height: high, colour: theme.background }];
  let y = PAD;
  for (const block of blocks) {
    for (const item of block.items) items.push(shifted(item, PAD, y));
    y += block.height;
  }
  if (kind === "svg") return save(new Blob([svgOf(items, wide, high, theme.font)], { type: "image/svg+xml" }), `${name}.svg`);
  const [canvas, context] = sheetOf(wide, high);
  paintScene(context, items, theme.font);
  savePng(canvas, name);
}

/** A pen that measures texts. */
export function rulerOf() {
  return pen(element("canvas"));
}
