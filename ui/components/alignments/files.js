// Alignments as one picture file, drawn again at its own sharpness: titles, notes and cells.

import { savePng, sheetOf, shortened } from "../shared/page.js";
import { drawAlignment, sizeOf } from "./canvas.js";

const PAD = 16;
const TITLE = 44; // room for a panel's title and note

/**
 * All panels with their titles and notes, laid out as on the page.
 * @param {import("./alignments.js").View} view
 */
export function saveAlignments({ boxes, header, sheet, theme }) {
  const page = sheet.getBoundingClientRect();
  const panels = boxes.flatMap(({ root, title, note, drawn }) => {
    if (!drawn) return [];
    const corner = root.getBoundingClientRect();
    const size = sizeOf(drawn.layout, drawn.rows.length, drawn.columns.length);
    return [{ x: PAD + corner.left - page.left, y: PAD + corner.top - page.top, ...size, corner, title, note, drawn }];
  });
  const width = Math.max(...panels.map(({ x, wide, corner }) => x + Math.max(wide, corner.width))) + PAD;
  const height = Math.max(...panels.map(({ y, tall }) => y + TITLE + tall)) + PAD;
  const [canvas, context] = sheetOf(width, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
  for (const { x, y, wide, tall, corner, title, note, drawn } of panels) {
    const room = Math.max(wide, corner.width);
    context.fillStyle = theme.text;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = `600 14px ${theme.font}`;
    context.fillText(shortened(context, title.textContent, room), x, y + 8);
    context.font = `13px ${theme.font}`;
    context.fillText(shortened(context, note.textContent, room), x, y + 28);
    context.save();
    context.translate(x, y + TITLE);
    context.beginPath();
    context.rect(0, 0, wide, tall);
    context.clip();
    drawAlignment(context, drawn);
    context.restore();
  }
  savePng(canvas, header.file_name);
}
