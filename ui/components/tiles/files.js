// What is seen of a map as a picture file: title, the window, what colours and blocks mean.

import { element, pen, savePng, sheetOf } from "../../../transformer/canvas/shared/page.js";
import { legendOf, titleOf, writeLines } from "../../../transformer/canvas/shared/saved.js";
import { counted, fill } from "../../../transformer/canvas/shared/words.js";
import { drawMap, geometry } from "./canvas.js";
import { meaning } from "./legend.js";
import { blockOf } from "./sentences.js";

const PAD = 16;
const LEAST = 460;

/**
 * Let the user keep what is shown as a PNG.
 * @param {import("./tiles.js").View} view
 */
export function saveTiles(view) {
  const { header, theme, window: seen, layers } = view;
  const wide = Math.max(LEAST, view.place.wide);
  const ruler = pen(element("canvas"));
  const part = layers[layers.length - 1];
  const [top, bottom, left, right] = seen.map(Math.round);
  const spans = { first_row: counted(top + 1), last_row: counted(bottom), first_column: counted(left + 1), last_column: counted(right) };
  const lines = [...header.about.lines, fill(header.words.shown, spans), blockOf(header, part)];
  const title = titleOf(ruler, { ...header.about, lines }, wide, theme.font);
  const legend = legendOf(ruler, meaning(view), wide, theme);
  const place = geometry(view, wide);
  const height = title.height + place.tall + legend.height + 3 * PAD;
  const [canvas, context] = sheetOf(wide + 2 * PAD, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, wide + 2 * PAD, height);
  writeLines(context, title.lines, PAD, PAD, theme);
  drawMap(context, view, { ...place, left: place.left + PAD, top: place.top + PAD + title.height }, null);
  legend.paint(context, PAD, 2 * PAD + title.height + place.tall);
  savePng(canvas, header.file_name);
}
