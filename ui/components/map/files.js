// The map as a picture file: as it stands on the page, with what the model is and where the picture is from.

import { rulerOf, savePicture, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "font-family", "font-size", "font-weight", "image-rendering"];

/** @param {import("./map.js").View} view */
export async function saveMap({ sheet, header, theme, layout: { wide, height } }) {
  const picture = /** @type {SVGSVGElement} */ (sheet.cloneNode(true));
  const [own, copies] = [sheet.querySelectorAll("*"), picture.querySelectorAll("*")];
  own.forEach((one, number) => {
    const style = getComputedStyle(one);
    for (const name of KEPT) copies[number].setAttribute(name, style.getPropertyValue(name));
  });
  picture.setAttribute("width", String(wide));
  picture.setAttribute("height", String(height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  await image.decode();
  const shown = { items: [/** @type {const} */ ({ kind: "image", image, x: 0, y: 0, width: wide, height })], height };
  savePicture(header.file_name, theme, wide, [titleOf(rulerOf(), header.saved, wide, theme), shown]);
}
