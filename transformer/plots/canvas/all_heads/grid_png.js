// The grid of thumbnails as one picture file, with a title and every label that the page shows.

import { element } from "../shared/page.js";
import { legendOf, rulerOf, savePicture, titleOf } from "../shared/saved.js";
import { aspect, legendFor, paint } from "./thumbnails.js";

const SIDE = 84; // a row's name
const GAP = 6;
const TOP = 28; // columns' names
const LEAST = 460; // pixels of width that a title and a legend get

/**
 * Let the user keep the whole grid.
 * @param {import("./all_heads.js").View} view
 */
export function gridPng({ header, weights, theme, look, selected }) {
  const { shape } = header;
  const [layers, heads] = shape;
  const width = Math.min(110, 110 * aspect(shape));
  const height = width / aspect(shape);
  const inner = Math.max(SIDE + heads * (width + GAP), LEAST);
  const ruler = rulerOf();
  const base = /** @type {const} */ ({ kind: "text", colour: theme.text });
  const left = (/** @type {number} */ head) => SIDE + head * (width + GAP);
  const top = (/** @type {number} */ layer) => TOP + layer * (height + GAP);
  /** @type {import("../shared/scene.js").Item[]} */
  const items = [
    ...header.columns.map((text, head) => ({ ...base, text, x: left(head) + width / 2, y: TOP - 12, room: width, align: /** @type {const} */ ("center") })),
    ...header.rows.map((text, layer) => ({ ...base, text, x: 0, y: top(layer) + height / 2, room: SIDE - 8, align: /** @type {const} */ ("left") })),
  ];
  for (let head = 0; head < layers * heads; head++) {
    const image = element("canvas");
    paint(image, weights, shape, head, look, 2 * Math.max(width, height));
    items.push({ kind: "image", image, x: left(head % heads), y: top(Math.floor(head / heads)), width, height, crisp: true });
  }
  if (selected) {
    const [y, x] = [top(selected[0]) - 2, left(selected[1]) - 2];
    items.push({ kind: "frame", x, y, width: width + 4, height: height + 4, colour: theme.primary, line: 3 });
  }
  const legend = legendOf(ruler, legendFor({ header, weights, theme }), inner, theme);
  savePicture(header.file_name, theme, inner, [titleOf(ruler, header.about, inner, theme), { items, height: top(layers) + GAP }, legend]);
}
