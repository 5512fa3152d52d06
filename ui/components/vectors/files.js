// A plane of queries and keys as a picture file: title, all points with what is in focus, what colours mean.

import { element, pen, savePng, sheetOf } from "../../../transformer/canvas/shared/page.js";
import { titleOf, writeLines } from "../../../transformer/canvas/shared/saved.js";
import { drawFocus, drawPoints, mark, meanings, placed } from "./plot.js";

const PAD = 16;
const LINE = 20;

/**
 * Let the user keep what is shown as a PNG.
 * @param {import("./vectors.js").View} view
 */
export function saveVectors(view) {
  const { header, theme, size } = view;
  const ruler = pen(element("canvas"));
  const lines = [...header.about.lines, view.focus === null ? "" : view.reading.textContent ?? ""].filter(Boolean);
  const title = titleOf(ruler, { ...header.about, lines }, size.width, theme.font);
  const named = meanings(view);
  const height = title.height + size.height + named.length * LINE + 2 * PAD;
  const [canvas, context] = sheetOf(size.width + 2 * PAD, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, size.width + 2 * PAD, height);
  writeLines(context, title.lines, PAD, PAD, theme);
  const at = placed(view, size.width, size.height);
  context.save();
  context.translate(PAD, PAD + title.height);
  context.beginPath();
  context.rect(0, 0, size.width, size.height);
  context.clip();
  drawPoints(context, view, at);
  drawFocus(context, view, at, size.width);
  context.restore();
  context.font = `12px ${theme.font}`;
  context.textBaseline = "middle";
  named.forEach(([name, colour], row) => {
    const y = PAD + title.height + size.height + row * LINE + LINE / 2;
    context.fillStyle = colour;
    mark(context, view.options.colour === "side" && row === 0 ? "query" : "key", PAD + 6, y, 5);
    context.fillStyle = theme.text;
    context.fillText(name, PAD + 20, y);
  });
  savePng(canvas, header.file_name);
}
