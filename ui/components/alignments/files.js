// Alignments as one picture file.

import { savePng, sheetOf } from "../shared/page.js";

/**
 * All panels with their titles on one canvas, as they lie on the page.
 * @param {import("./alignments.js").View} view
 */
export function saveAlignments({ boxes, header, sheet, theme }) {
  const page = sheet.getBoundingClientRect();
  const [canvas, context] = sheetOf(page.width, page.height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, page.width, page.height);
  context.fillStyle = theme.text;
  context.font = `600 14px ${theme.font}`;
  context.textBaseline = "top";
  for (const { canvas: cells, title } of boxes) {
    const [above, box] = [title.getBoundingClientRect(), cells.getBoundingClientRect()];
    context.fillText(title.textContent, above.left - page.left, above.top - page.top);
    context.drawImage(cells, box.left - page.left, box.top - page.top, box.width, box.height);
  }
  savePng(canvas, header.file_name);
}
