// The matrices as one picture file, drawn again at its own sharpness: names, cells and the legend.

import { savePng, sheetOf, shortened } from "../shared/page.js";
import { titleOf, writeLines } from "../shared/saved.js";
import { drawMatrix } from "./canvas.js";
import { meanings } from "./legend.js";
import { sizeOf, writeSymbol } from "./symbols.js";

const PAD = 16;
const LEGEND = 26; // height of the legend's line
const NARROWEST = 420; // what a picture has room for beside its matrices: a title
const SYMBOL = '"Latin Modern Math", "STIX Two Math", Cambria, Georgia, serif';

/**
 * Every matrix with its name, laid out as on the page.
 * @param {import("./matrices.js").View} view
 */
export function saveMatrices(view) {
  const { boxes, sheet, theme } = view;
  const page = sheet.getBoundingClientRect();
  const found = [...boxes.values()].map((box) => ({ box, corner: box.root.getBoundingClientRect() }));
  const right = found.map(({ box, corner }) => corner.left - page.left + Math.max(box.shape.wide, corner.width));
  const tall = found.map(({ box, corner }) => bottom(box, corner) - page.top);
  const outlines = meanings(view.header, view.selected !== null, view.example);
  const width = Math.max(...right, NARROWEST) + 2 * PAD;
  const said = titleOf(sheetOf(1, 1)[1], view.header.about, width - 2 * PAD, theme.font);
  const start = PAD + said.height;
  const top = outlines.length ? start + LEGEND : start;
  const height = Math.max(...tall, 0) + top + PAD;
  const [canvas, context] = sheetOf(width, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
  writeLines(context, said.lines, PAD, PAD, theme);
  drawLegend(context, view, outlines, start);
  for (const { box, corner } of found) {
    const caption = box.caption.getBoundingClientRect();
    const [x, y] = [PAD + corner.left - page.left, top + corner.top - page.top];
    context.fillStyle = theme.text;
    const end = writeSymbol(context, box.matrix.symbol, x, y + 12, 17, SYMBOL);
    context.font = `13px ${theme.font}`;
    const text = [sizeOf(box), box.matrix.title].filter(Boolean).join("  ");
    context.fillText(shortened(context, text, Math.max(caption.width, box.shape.wide) - (end - x) - 8), end + 8, y + 12);
    context.save();
    context.translate(x, y + caption.height + 4);
    drawMatrix(context, { ...box, focused: null }, theme, view.paints);
    context.restore();
  }
  savePng(canvas, view.header.file_name);
}

/**
 * Where a matrix ends as a whole, also where the page shows only a part of it.
 * @param {import("./matrices.js").Box} box
 * @param {DOMRect} corner
 */
function bottom(box, corner) {
  return corner.top + box.caption.getBoundingClientRect().height + 4 + box.shape.tall;
}

/**
 * What the outlines mean, in one line.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./matrices.js").View} view
 * @param {ReturnType<typeof meanings>} outlines
 * @param {number} y
 */
function drawLegend(context, { paints, theme }, outlines, y) {
  let x = PAD;
  context.font = `13px ${theme.font}`;
  context.textBaseline = "middle";
  for (const [name, text] of outlines) {
    context.strokeStyle = paints[name];
    context.lineWidth = name === "picked" || name === "outlined" ? 3 : name === "further" ? 1 : 2;
    context.setLineDash(name === "further" ? [2, 2] : []);
    context.strokeRect(x + 1, y + 1, 11, 11);
    context.fillStyle = theme.text;
    context.fillText(text, x + 19, y + 7);
    x += 19 + context.measureText(text).width + 16;
  }
  context.setLineDash([]);
}
