// What a saved picture says of itself, alike in every component: its title, of what it is, and what its colours mean.

import { scale } from "./colours.js";
import { wrapped } from "./page.js";

const TITLE = { size: 15, line: 21 };
const LINE = { size: 12, line: 17 };
const BAR = { wide: 200, tall: 12, ticks: 20 };
const MARK = 14;
const GAP = 10;

/** @typedef {{ title: string, lines: string[], formulas?: string[] }} About What Python says of the picture: About in about.py. */

/** @typedef {{ text: string, x: number, y: number, size: number, bold: boolean }} Written A line, `y` its middle. */

/**
 * What the colours mean: a name, ticks from 0 to 1 along the bar, marks that are no weights, and a last sentence.
 * @typedef {object} Legend
 * @property {string} name
 * @property {[text: string, position: number][]} ticks
 * @property {[name: string, paint: (context: CanvasRenderingContext2D, x: number, y: number, side: number) => void][]} marks
 * @property {string} note
 */

/**
 * The lines of a title and of what stands below it, wrapped, and the height that they take up; 0 where nothing is said.
 * @param {CanvasRenderingContext2D} ruler
 * @param {About} about
 * @param {number} width
 * @param {string} font
 * @returns {{ lines: Written[], height: number }}
 */
export function titleOf(ruler, { title, lines }, width, font) {
  /** @type {Written[]} */
  const found = [];
  let y = 0;
  for (const [index, text] of [title, ...lines].entries()) {
    const bold = index === 0;
    const { size, line } = bold ? TITLE : LINE;
    ruler.font = `${bold ? "600 " : ""}${size}px ${font}`;
    for (const part of wrapped(ruler, text, width)) {
      found.push({ text: part, x: 0, y: y + line / 2, size, bold });
      y += line;
    }
  }
  return { lines: found, height: found.length ? y + GAP : 0 };
}

/**
 * Write lines on a canvas, the upper left corner of their block at (x, y).
 * @param {CanvasRenderingContext2D} context
 * @param {Written[]} lines
 * @param {number} x
 * @param {number} y
 * @param {import("./colours.js").Theme} theme
 */
export function writeLines(context, lines, x, y, theme) {
  context.fillStyle = theme.text;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const line of lines) {
    context.font = `${line.bold ? "600 " : ""}${line.size}px ${theme.font}`;
    context.fillText(line.text, x + line.x, y + line.y);
  }
}

/**
 * The legend of a picture whose colours are those of the scale: its height at this width, and a way to paint it.
 * @param {CanvasRenderingContext2D} ruler
 * @param {Legend} legend
 * @param {number} width
 * @param {import("./colours.js").Theme} theme
 */
export function legendOf(ruler, { name, ticks, marks, note }, width, theme) {
  const head = titleOf(ruler, { title: "", lines: [name] }, width, theme.font);
  const foot = titleOf(ruler, { title: "", lines: [note] }, width, theme.font);
  ruler.font = `${LINE.size}px ${theme.font}`;
  let [x, row] = [0, 0];
  const placed = marks.map(([text, paint]) => {
    const wide = MARK + 5 + ruler.measureText(text).width;
    if (x && x + wide > width) [x, row] = [0, row + 1];
    const at = { text, paint, x, row };
    x += wide + GAP;
    return at;
  });
  const bar = head.height + BAR.tall + BAR.ticks;
  const named = bar + (marks.length ? (row + 1) * (MARK + 4) + 4 : 0);
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} left
   * @param {number} top
   */
  const paint = (context, left, top) => {
    writeLines(context, head.lines, left, top, theme);
    const wide = Math.min(BAR.wide, width - 2 * GAP);
    for (let at = 0; at < wide; at++) {
      context.fillStyle = `rgb(${scale(at / (wide - 1))})`;
      context.fillRect(left + at, top + head.height, 1.5, BAR.tall);
    }
    context.fillStyle = theme.text;
    context.font = `12px ${theme.font}`;
    for (const [text, position] of ticks) {
      context.textAlign = position === 0 ? "left" : "center";
      context.fillText(text, left + wide * position, top + head.height + BAR.tall + 9);
    }
    context.textAlign = "left";
    context.font = `${LINE.size}px ${theme.font}`;
    for (const mark of placed) {
      const y = top + bar + mark.row * (MARK + 4);
      mark.paint(context, left + mark.x, y, MARK);
      context.fillStyle = theme.text;
      context.fillText(mark.text, left + mark.x + MARK + 5, y + MARK / 2);
    }
    writeLines(context, foot.lines, left, top + named, theme);
  };
  return { height: named + foot.height, paint };
}
