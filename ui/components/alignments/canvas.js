// One alignment on a canvas: target words down, source words across; marks for the word in focus.

import { NAN, scale } from "../../../transformer/plots/canvas/shared/colours.js";
import { pen, shortened } from "../../../transformer/plots/canvas/shared/page.js";

const FONT = 12;
const LABEL = { row: 110, column: 128 }; // pixels for a label, at most
const CELL = { narrow: 12, wide: 44, tall: 22, low: 12 };
const ABREAST = 480; // from this width on, panels stand side by side, if every source word has its room there
const GAP = 24;
const BAR = 14; // room below the cells for the marked source words' bars
export const PALE = 0.65; // how strong other labels are while a word is in focus
const STRONG = 0.1; // from this weight on, a source word counts as looked at

/** @typedef {import("./alignments.js").Header} Header */
/** @typedef {import("../../../transformer/plots/canvas/shared/colours.js").Theme} Theme */
/** @typedef {ReturnType<typeof layoutOf>} Layout */

/**
 * What is drawn of one panel: `weights` are -1 where there is no such key, `focused` is the row in focus if it is this
 * panel's, `looked` what the word in focus looked at.
 * @typedef {object} Drawn
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {Float32Array} weights
 * @property {Layout} layout
 * @property {Theme} theme
 * @property {number | null} focused
 * @property {Float32Array | null} looked
 */

/**
 * Where everything lies, in CSS pixels; the same for all panels, so that the source axes line up.
 * @param {Header} header
 * @param {number} moment
 * @param {Theme} theme
 * @param {number} width
 * @param {CanvasRenderingContext2D} ruler
 */
export function layoutOf({ columns, moments }, moment, theme, width, ruler) {
  const count = moments[moment].panels.length;
  ruler.font = `600 ${FONT}px ${theme.font}`;
  const widest = (/** @type {string[]} */ labels) =>
    labels.reduce((most, label) => Math.max(most, ruler.measureText(label).width), 0);
  const panels = moments.flatMap((one) => one.panels);
  const rows = panels.flatMap((panel) => panel.rows);
  const tallest = Math.max(...panels.map((panel) => panel.rows.length), 1);
  const left = Math.min(Math.ceil(widest(rows)) + 10, LABEL.row, Math.round(width / 3));
  const roomOf = (/** @type {number} */ number) => (width - (number - 1) * GAP) / number - left - 4;
  const fits = width >= ABREAST && roomOf(count) >= columns.length * CELL.narrow;
  const abreast = fits ? count : 1;
  const room = roomOf(abreast);
  const cell = Math.min(Math.max(Math.floor(room / columns.length), CELL.narrow), CELL.wide);
  const upright = widest(columns) + 6 > cell;
  const top = upright ? Math.min(Math.ceil(widest(columns)) + 10, LABEL.column) : 22;
  return { abreast, left, top, cell, tall: tallest > 40 ? CELL.low : CELL.tall, upright };
}

/**
 * The row at a height of the canvas, or null.
 * @param {Pick<Layout, "top" | "tall">} layout
 * @param {number} y
 * @param {number} rows
 */
export function rowAt({ top, tall }, y, rows) {
  const row = Math.floor((y - top) / tall);
  return row >= 0 && row < rows ? row : null;
}

/**
 * How far a window that shows `tall` pixels from `scrolled` on has to move down (up: negative) to show a row whole.
 * @param {Pick<Layout, "top" | "tall">} layout
 * @param {number} row
 * @param {number} scrolled
 * @param {number} tall
 */
export function hiddenBy(layout, row, scrolled, tall) {
  const above = row * layout.tall - scrolled;
  const below = layout.top + (row + 1) * layout.tall - (scrolled + tall - BAR);
  return above < 0 ? above : Math.max(below, 0);
}

/**
 * How large a panel's picture is, in CSS pixels.
 * @param {Layout} layout
 * @param {number} rows
 * @param {number} columns
 */
export function sizeOf(layout, rows, columns) {
  return { wide: layout.left + columns * layout.cell + 4, tall: layout.top + rows * layout.tall + BAR };
}

/**
 * The part of a panel's picture that is seen: a window of this size, scrolled to (x, y).
 * @typedef {{ x: number, y: number, wide: number, tall: number }} Seen
 */

/**
 * Draw what is seen of a panel, its upper left corner at the pen's origin. Labels and the bars of the word in focus stay
 * at the edges, the cells move below them.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 * @param {Seen} seen
 */
export function drawAlignment(context, drawn, { x, y, wide, tall }) {
  const { columns, weights, layout, theme, looked } = drawn;
  const { left, top } = layout;
  const foot = tall - BAR;
  within(context, [left, top, wide - left, foot - top], [-x, -y], () => {
    weights.forEach((weight, index) => {
      const column = left + (index % columns.length) * layout.cell;
      const row = top + Math.floor(index / columns.length) * layout.tall;
      paintCell(context, weight, column, row, layout, theme);
    });
    if (looked) drawMarks(context, drawn, looked);
  });
  within(context, [left, 0, wide - left, top], [-x, 0], () => drawColumns(context, drawn));
  within(context, [0, top, left, foot - top], [0, -y], () => drawRows(context, drawn));
  if (looked) within(context, [left, foot, wide - left, BAR], [-x, foot], () => drawBars(context, drawn, looked));
}

/**
 * Draw inside of a box only, with the origin moved.
 * @param {CanvasRenderingContext2D} context
 * @param {[x: number, y: number, wide: number, tall: number]} box
 * @param {[x: number, y: number]} origin
 * @param {() => void} draw
 */
function within(context, box, origin, draw) {
  context.save();
  context.beginPath();
  context.rect(...box);
  context.clip();
  context.translate(...origin);
  draw();
  context.restore();
}

/**
 * The position of the largest weight; the first of equal ones.
 * @param {ArrayLike<number>} weights
 */
export function strongest(weights) {
  let best = 0;
  for (let at = 1; at < weights.length; at++) if (weights[at] > weights[best]) best = at;
  return best;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} weight
 * @param {number} x
 * @param {number} y
 * @param {Layout} layout
 * @param {Theme} theme
 */
function paintCell(context, weight, x, y, layout, theme) {
  if (weight < 0) {
    paintNowhere(context, x, y, layout.cell, layout.tall, theme);
    return;
  }
  context.fillStyle = Number.isNaN(weight) ? NAN : `rgb(${scale(weight)})`;
  context.fillRect(x, y, layout.cell, layout.tall);
}

/**
 * A cell for which there is no such key.
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} wide
 * @param {number} tall
 * @param {Theme} theme
 */
export function paintNowhere(context, x, y, wide, tall, theme) {
  context.fillStyle = `rgb(${theme.masked})`;
  context.fillRect(x, y, wide, tall);
  context.strokeStyle = `rgb(${theme.hatch})`;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, y + tall);
  context.lineTo(x + wide, y);
  context.stroke();
}

/**
 * Write labels bold where they belong to what is in focus, and paler where something else does.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 * @param {boolean} on
 */
function emphasise(context, { theme, looked }, on) {
  context.textBaseline = "middle";
  context.font = `${on ? 700 : 400} ${FONT}px ${theme.font}`;
  context.fillStyle = theme.text;
  context.globalAlpha = looked && !on ? PALE : 1;
}

/**
 * The target words; the one in focus is bold.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 */
function drawRows(context, drawn) {
  const { rows, layout, focused } = drawn;
  context.textAlign = "right";
  rows.forEach((text, row) => {
    emphasise(context, drawn, row === focused);
    const label = shortened(context, text, layout.left - 10);
    context.fillText(label, layout.left - 6, layout.top + (row + 0.5) * layout.tall);
  });
  context.globalAlpha = 1;
}

/**
 * The source words; those that the word in focus looked at are bold.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 */
function drawColumns(context, drawn) {
  const { columns, layout, looked } = drawn;
  columns.forEach((text, column) => {
    emphasise(context, drawn, Boolean(looked && looked[column] >= STRONG));
    const x = layout.left + (column + 0.5) * layout.cell;
    context.save();
    context.translate(x, layout.top - 6);
    if (layout.upright) context.rotate(-Math.PI / 2);
    context.textAlign = layout.upright ? "left" : "center";
    if (!layout.upright) context.translate(0, -6);
    context.fillText(shortened(context, text, layout.upright ? layout.top - 10 : layout.cell), 0, 0);
    context.restore();
  });
  context.globalAlpha = 1;
}

/**
 * A bar for each source word, as long as its weight is large.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 * @param {Float32Array} looked
 */
function drawBars(context, { layout, theme }, looked) {
  context.fillStyle = theme.primary;
  looked.forEach((weight, column) => {
    if (!(weight > 0.005)) return;
    const x = layout.left + column * layout.cell;
    context.fillRect(x + 1, 2, layout.cell - 2, Math.max(1, (BAR - 3) * weight));
  });
}

/**
 * Outline the row in focus and the columns of the source words that it looked at.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 * @param {Float32Array} looked
 */
function drawMarks(context, { rows, columns, layout, focused }, looked) {
  looked.forEach((weight, column) => {
    if (!(weight >= STRONG)) return;
    const x = layout.left + column * layout.cell;
    context.strokeStyle = "#ffffff";
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.strokeRect(x + 0.5, layout.top + 0.5, layout.cell - 1, rows.length * layout.tall - 1);
    context.setLineDash([]);
  });
  if (focused === null) return;
  const [x, y] = [layout.left, layout.top + focused * layout.tall];
  for (const [colour, width] of /** @type {const} */ ([["#000000", 4], ["#ffffff", 2]])) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(x, y, columns.length * layout.cell, layout.tall);
  }
}

/**
 * The colours from 0 to 1.
 * @param {HTMLCanvasElement} canvas
 */
export function drawScale(canvas) {
  Object.assign(canvas, { width: 120, height: 10 });
  const context = pen(canvas);
  for (let x = 0; x < 120; x++) {
    context.fillStyle = `rgb(${scale(x / 119)})`;
    context.fillRect(x, 0, 1, 10);
  }
}
