// The grid of thumbnails as one picture file, with every label that the page shows.

import { element, savePng, sheetOf, shortened } from "../shared/page.js";
import { fill } from "../shared/words.js";
import { aspect, marks, paint, paintScale, paintSwatch, TICKS } from "./thumbnails.js";

const SIDE = 84; // a row's name
const GAP = 6;
const PAD = 16;
const TOP = 28; // columns' names
const BOTTOM = 64; // colour bar

/**
 * Draw the whole grid on a canvas of its own and let the user keep it.
 * @param {import("./all_heads.js").View} view
 */
export function gridPng({ header, arrays, theme, colours, selected }) {
  const { shape, words } = header;
  const [layers, heads] = shape;
  const cellWidth = Math.min(110, 110 * aspect(shape));
  const cellHeight = cellWidth / aspect(shape);
  const width = Math.max(PAD * 2 + SIDE + heads * (cellWidth + GAP), 460);
  const height = PAD * 2 + TOP + layers * (cellHeight + GAP) + BOTTOM;
  const [canvas, context] = sheetOf(width, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
  /**
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {number} room
   * @param {CanvasTextAlign} align
   * @param {number} size
   */
  const write = (text, x, y, room, align = "left", size = 13) => {
    context.font = `${size}px ${theme.font}`;
    context.fillStyle = theme.text;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(shortened(context, text, room), x, y);
  };
  const x = (/** @type {number} */ head) => PAD + SIDE + head * (cellWidth + GAP);
  const y = (/** @type {number} */ layer) => PAD + TOP + layer * (cellHeight + GAP);
  header.columns.forEach((name, head) => write(name, x(head) + cellWidth / 2, PAD + TOP - 12, cellWidth, "center"));
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
  const bar = element("canvas");
  paintScale(bar, colours);
  const below = height - PAD - BOTTOM + 18;
  context.drawImage(bar, PAD, below, 200, 12);
  for (const [weight, position] of TICKS) write(String(weight), PAD + 200 * position, below + 22, 40, "center", 11);
  write(words.scale, PAD + 220, below + 6, width - PAD * 2 - 220, "left", 12);
  const patch = element("canvas");
  let at = PAD + 220;
  for (const [nan, name] of marks(arrays, words)) {
    paintSwatch(patch, colours, nan);
    context.drawImage(patch, at, below + 17, 14, 14);
    write(name, at + 19, below + 24, 80, "left", 12);
    at += 90;
  }
  const axes = fill(words.axes, { queries: header.query_axis, keys: header.key_axis });
  write(axes, at, below + 24, width - PAD - at, "left", 12);
  savePng(canvas, header.file_name);
}
