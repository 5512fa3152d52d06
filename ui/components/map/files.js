// The map as a picture file: as it stands on the page, with what the model is and where the picture is from.

import { savePng, sheetOf } from "../../../transformer/plots/canvas/shared/page.js";
import { titleOf, writeLines } from "../../../transformer/plots/canvas/shared/saved.js";

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "font-family", "font-size", "font-weight", "image-rendering"];
const MARGIN = 20;

/** @param {import("./map.js").View} view */
export async function saveMap({ sheet, header, theme, layout }) {
  const picture = /** @type {SVGSVGElement} */ (sheet.cloneNode(true));
  const [own, copies] = [sheet.querySelectorAll("*"), picture.querySelectorAll("*")];
  own.forEach((one, number) => {
    const style = getComputedStyle(one);
    for (const name of KEPT) copies[number].setAttribute(name, style.getPropertyValue(name));
  });
  picture.setAttribute("width", String(layout.wide));
  picture.setAttribute("height", String(layout.height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  await image.decode();
  const [, ruler] = sheetOf(1, 1);
  const head = titleOf(ruler, header.saved, layout.wide, theme.font);
  const [canvas, context] = sheetOf(layout.wide + 2 * MARGIN, layout.height + head.height + 2 * MARGIN);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, layout.wide + 2 * MARGIN, layout.height + head.height + 2 * MARGIN);
  writeLines(context, head.lines, MARGIN, MARGIN, theme);
  context.drawImage(image, MARGIN, MARGIN + head.height, layout.wide, layout.height);
  savePng(canvas, header.file_name);
}
