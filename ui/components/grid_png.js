// The grid of thumbnails as one picture file, with every label that the page shows.

import { SCALE } from "./colours.js";
import { element, pixelRatio, savePng, shortened } from "./page.js";
import { marks, paint, paintScale, paintSwatch, scaleName, ticks } from "./thumbnails.js";

const SIDE = 84; // a row's name
const GAP = 6;
const PAD = 16;
const TOP = 64; // caption and columns' names
const BOTTOM = 64; // colour bar

/** Draw the whole grid on a canvas of its own and let the reader keep it. */
export function gridPng(picture) {
  const { header, theme, colours } = picture;
  const [layers, heads, queries, keys] = header.shape;
  const shape = Math.min(Math.max(keys / queries, 0.5), 2);
  const cellWidth = shape >= 1 ? 110 : 110 * shape;
  const cellHeight = cellWidth / shape;
  const width = Math.max(PAD * 2 + SIDE + heads * (cellWidth + GAP), 460);
  const height = PAD * 2 + TOP + layers * (cellHeight + GAP) + BOTTOM;
  const ratio = pixelRatio(width, height);
  const canvas = element("canvas");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
  const write = (text, x, y, room, align = "left", font = "13px") => {
    context.font = `${font} ${theme.font}`;
    context.fillStyle = theme.text;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(shortened(context, text, room), x, y);
  };
  write(header.caption, PAD, PAD + 10, width - 2 * PAD, "left", "600 16px");
  const x = (head) => PAD + SIDE + head * (cellWidth + GAP);
  const y = (layer) => PAD + TOP + layer * (cellHeight + GAP);
  header.columns.forEach((name, head) => write(name, x(head) + cellWidth / 2, PAD + TOP - 12, cellWidth, "center"));
  header.rows.forEach((name, layer) => write(name, PAD, y(layer) + cellHeight / 2, SIDE - 8));
  const thumbnail = element("canvas");
  context.imageSmoothingEnabled = false;
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      paint(thumbnail, picture, layer * heads + head, colours, 2 * Math.max(cellWidth, cellHeight));
      context.drawImage(thumbnail, x(head), y(layer), cellWidth, cellHeight);
      if (picture.selected?.[0] === layer && picture.selected[1] === head) {
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
  for (const [weight, position] of ticks(header.gamma)) {
    write(String(weight), PAD + 200 * position, below + 22, 40, "center", "11px");
  }
  const words = `weight, ${scaleName(header.gamma)} colour scale (${SCALE})`;
  write(words, PAD + 220, below + 6, width - PAD * 2 - 220, "left", "12px");
  const patch = element("canvas");
  let at = PAD + 220;
  for (const [nan, name] of marks(picture)) {
    paintSwatch(patch, colours, nan);
    context.drawImage(patch, at, below + 17, 14, 14);
    write(name, at + 19, below + 24, 80, "left", "12px");
    at += 90;
  }
  const axes = `${header.query_axis} down, ${header.key_axis} across`;
  write(axes, at, below + 24, width - PAD - at, "left", "12px");
  savePng(canvas, header.file_name);
}
