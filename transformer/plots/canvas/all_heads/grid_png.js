// The grid of thumbnails as one picture file, with a title and every label that the page shows.

import { element, pen, savePng, sheetOf, shortened } from "../shared/page.js";
import { legendOf, titleOf, writeLines } from "../shared/saved.js";
import { fill } from "../shared/words.js";
import { aspect, marks, paint, paintSwatch, TICKS } from "./thumbnails.js";

const SIDE = 84; // a row's name
const GAP = 6;
const PAD = 16;
const TOP = 28; // columns' names
const LEAST = 460; // pixels of width that a title and a legend get

/**
 * Draw the whole grid on a canvas of its own and let the user keep it.
 * @param {import("./all_heads.js").View} view
 */
export function gridPng({ header, arrays, theme, colours, selected }) {
  const { shape } = header;
  const [layers, heads] = shape;
  const cellWidth = Math.min(110, 110 * aspect(shape));
  const cellHeight = cellWidth / aspect(shape);
  const inner = Math.max(SIDE + heads * (cellWidth + GAP), LEAST);
  const ruler = pen(element("canvas"));
  const title = titleOf(ruler, header.about, inner, theme.font);
  const legend = legendOf(ruler, meaningOf({ header, arrays, colours }), inner, theme);
  const top = PAD + title.height + TOP;
  const below = top + layers * (cellHeight + GAP) + GAP;
  const [width, height] = [inner + 2 * PAD, below + legend.height + PAD];
  const [canvas, context] = sheetOf(width, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
  writeLines(context, title.lines, PAD, PAD, theme);
  /**
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {number} room
   * @param {CanvasTextAlign} align
   */
  const write = (text, x, y, room, align = "left") => {
    context.font = `13px ${theme.font}`;
    context.fillStyle = theme.text;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(shortened(context, text, room), x, y);
  };
  const x = (/** @type {number} */ head) => PAD + SIDE + head * (cellWidth + GAP);
  const y = (/** @type {number} */ layer) => top + layer * (cellHeight + GAP);
  header.columns.forEach((name, head) => write(name, x(head) + cellWidth / 2, top - 12, cellWidth, "center"));
  header.rows.forEach((name, layer) => write(name, PAD, y(layer) + cellHeight / 2, SIDE - 8));
  const thumbnail = element("canvas");
  context.imageSmoothingEnabled = false;
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      paint(thumbnail, arrays, shape, layer * heads + head, colours, 2 * Math.max(cellWidth, cellHeight));
      context.drawImage(thumbnail, x(head), y(layer), cellWidth, cellHeight);
      if (selected?.[0] === layer && selected[1] === head) {
        context.strokeStyle = theme.primary;
        context.lineWidth = 3;
        context.strokeRect(x(head) - 2, y(layer) - 2, cellWidth + 4, cellHeight + 4);
      }
    }
  }
  legend.paint(context, PAD, below);
  savePng(canvas, header.file_name);
}

/**
 * What the colours mean.
 * @param {Pick<import("./all_heads.js").View, "header" | "arrays" | "colours">} view
 * @returns {import("../shared/saved.js").Legend}
 */
function meaningOf({ header, arrays, colours }) {
  const { words } = header;
  const patch = element("canvas");
  return {
    name: words.scale,
    ticks: TICKS.map((weight) => [String(weight), weight]),
    marks: marks(arrays, words).map(([nan, name]) => [
      name,
      (context, x, y, side) => {
        paintSwatch(patch, colours, nan);
        context.drawImage(patch, x, y, side, side);
      },
    ]),
    note: fill(words.axes, { queries: header.query_axis, keys: header.key_axis }),
  };
}
