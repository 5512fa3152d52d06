// A bitext as a picture file: both sentences, the lines, and the sentence that says what is in focus.

import { element, pen, savePng, sheetOf, wrapped } from "../../../transformer/plots/canvas/shared/page.js";
import { chosen, pathOf, strength } from "./lines.js";

const PAD = 18;
const LINE = 20;

/**
 * Let the user keep what is shown as a PNG.
 * @param {import("./bitext.js").View} view
 */
export function saveBitext(view) {
  const { header, theme, sheet } = view;
  const ruler = pen(element("canvas"));
  ruler.font = `14px ${theme.font}`;
  const width = sheet.clientWidth + 2 * PAD;
  const said = [header.head, view.reading.textContent ?? ""].flatMap((text) => wrapped(ruler, text, width - 2 * PAD));
  const [canvas, context] = sheetOf(width, sheet.clientHeight + 3 * PAD + said.length * LINE);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, canvas.height);
  context.translate(PAD, PAD);
  context.strokeStyle = theme.primary;
  for (const line of chosen(view, view.focus)) {
    const look = strength(line.weight, Boolean(view.focus));
    context.globalAlpha = look.opacity;
    context.lineWidth = look.width;
    context.stroke(new Path2D(pathOf(view.boxes.source[line.key], view.boxes.target[line.query])));
  }
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
  context.textAlign = "left";
  context.font = `14px ${theme.font}`;
  said.forEach((text, order) => context.fillText(text, 0, sheet.clientHeight + PAD + (order + 0.5) * LINE));
  savePng(canvas, header.file_name);
}
