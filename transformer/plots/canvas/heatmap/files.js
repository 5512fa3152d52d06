// A heatmap as a picture file: with its title, and what it is of.

import { element, pen, save, savePng, sheetOf, wrapped } from "../shared/page.js";
import { titleOf } from "../shared/saved.js";
import { paintScene, shifted, svgOf } from "../shared/scene.js";
import { MASKED } from "./paint.js";
import { measuresOf, sceneOf } from "./scene.js";
import { seen } from "./zoom.js";

const PAD = 16;
const LEAST = 460; // CSS pixels of width that a title and the facts get
const LINE = 17;

/**
 * Let the user keep the numbers that are shown, as a table with the names of queries and keys; nothing where masked.
 * @param {import("./heatmap.js").View} view
 */
export function saveNumbers({ header, layers }) {
  const { queries, keys } = header;
  const cell = (/** @type {string} */ text) => `"${text.replaceAll('"', '""')}"`;
  const rows = queries.labels.map((label, row) => {
    const here = layers[0].values?.subarray(row * keys.labels.length, (row + 1) * keys.labels.length) ?? [];
    return [cell(label), ...Array.from(here, (weight) => (weight === MASKED ? "" : String(Number(weight.toPrecision(9)))))];
  });
  const lines = [["", ...keys.labels.map(cell)], ...rows].map((one) => one.join(","));
  save(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }), `${header.file_name}.csv`);
}

/**
 * Let the user keep what is shown.
 * @param {import("./heatmap.js").View} view
 * @param {"png" | "svg"} kind
 */
export function saveHeatmap(view, kind) {
  const { header, theme } = view;
  const measures = measuresOf(view, header.long ? Math.max(LEAST, view.measures.width) : 800);
  const inner = Math.max(measures.width, LEAST);
  const ruler = pen(element("canvas"));
  const title = titleOf(ruler, { title: header.title, lines: [...header.axis.facts, ...(header.long ? [seen(view)] : [])] }, inner, theme.font);
  ruler.font = `12px ${theme.font}`;
  const notes = wrapped(ruler, header.axis.notes, inner);
  const below = PAD + title.height + measures.height + LINE;
  const [width, height] = [inner + 2 * PAD, below + notes.length * LINE + PAD];
  /** @type {import("../shared/scene.js").Item[]} */
  const items = [
    { kind: "box", x: 0, y: 0, width, height, colour: theme.background },
    ...title.lines.map(({ text, x, y, size, bold }) => written(text, PAD + x, PAD + y, size, bold)),
    ...sceneOf({ ...view, measures }, kind === "svg" ? 0 : 2).map((item) => shifted(item, PAD, PAD + title.height)),
    ...notes.map((text, order) => written(text, PAD, below + order * LINE, 12)),
  ];
  if (kind === "svg") {
    save(new Blob([svgOf(items, width, height, theme.font)], { type: "image/svg+xml" }), `${header.file_name}.svg`);
    return;
  }
  const [canvas, context] = sheetOf(width, height);
  paintScene(context, items, theme.font);
  savePng(canvas, header.file_name);

  /**
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {number} size
   * @returns {import("../shared/scene.js").Words}
   */
  function written(text, x, y, size, bold = false) {
    return { kind: "text", text, x, y, size, bold, room: inner, align: "left", colour: theme.text };
  }
}
