// A bitext as a picture file: what it is of, both sentences, the lines, and what they say.

import { element, pen, savePng, sheetOf } from "../../../transformer/plots/canvas/shared/page.js";
import { titleOf, writeLines } from "../../../transformer/plots/canvas/shared/saved.js";
import { chosen, DOTS, dotted, pathOf, strength } from "./lines.js";
import { legend, spoken } from "./sentences.js";

const PAD = 18;

/**
 * Let the user keep what is shown as a PNG.
 * @param {import("./bitext.js").View} view
 */
export function saveBitext(view) {
  const { header, theme, sheet } = view;
  const ruler = pen(element("canvas"));
  const width = sheet.clientWidth;
  const title = titleOf(ruler, header.about, width, theme.font);
  const told = titleOf(ruler, { title: "", lines: [view.focus ? spoken(view, view.focus) : legend(view)] }, width, theme.font);
  const [canvas, context] = sheetOf(width + 2 * PAD, title.height + sheet.clientHeight + told.height + 3 * PAD);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  writeLines(context, title.lines, PAD, PAD, theme);
  writeLines(context, told.lines, PAD, title.height + sheet.clientHeight + 2 * PAD, theme);
  context.translate(PAD, PAD + title.height);
  context.strokeStyle = theme.primary;
  for (const line of chosen(view, view.focus)) {
    const look = strength(line.weight, Boolean(view.focus));
    context.globalAlpha = look.opacity;
    context.lineWidth = look.width;
    context.stroke(new Path2D(pathOf(view.boxes.source[line.key], view.boxes.target[line.query])));
  }
  Object.assign(context, { globalAlpha: DOTS.opacity, lineWidth: DOTS.width, lineCap: "round", strokeStyle: theme.text });
  context.setLineDash(DOTS.dash);
  for (const line of dotted(view, view.focus)) context.stroke(new Path2D(pathOf(view.boxes.source[line.key], view.boxes.target[line.query])));
  context.globalAlpha = 1;
  context.fillStyle = theme.text;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const side of /** @type {const} */ (["source", "target"])) {
    header[side].texts.forEach((text, index) => {
      const box = view.boxes[side][index];
      context.font = `${index === view.focus?.index && side === view.focus.side ? 700 : 400} 17px ${theme.font}`;
      context.fillText(text, box.left + box.width / 2, box.top + box.height / 2);
    });
  }
  savePng(canvas, header.file_name);
}
