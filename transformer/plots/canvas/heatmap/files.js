// A heatmap as a picture file: with its title, and what it is of.

import { save } from "../shared/page.js";
import { MASKED, rowOf } from "../shared/cells.js";
import { notesOf, rulerOf, savePicture, titleOf } from "../shared/saved.js";
import { measuresOf, sceneOf } from "./scene.js";
import { seen } from "./zoom.js";

const LEAST = 460; // CSS pixels of width that a title and the facts get

/**
 * Let the user keep the numbers that are shown, as a table with the names of queries and keys; nothing where masked.
 * @param {import("./heatmap.js").View} view
 */
export function saveNumbers({ header, layers }) {
  const { queries, keys } = header;
  const cell = (/** @type {string} */ text) => `"${text.replaceAll('"', '""')}"`;
  const rows = queries.labels.map((label, row) => {
    const here = rowOf(layers[0].values ?? new Float32Array(), keys.labels.length, row);
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
  const width = Math.max(measures.width, LEAST);
  const ruler = rulerOf();
  const title = titleOf(ruler, { title: header.title, lines: [...header.axis.facts, ...(header.long ? [seen(view)] : [])] }, width, theme);
  const map = { items: sceneOf({ ...view, measures }, kind === "svg" ? 0 : 2), height: measures.height };
  savePicture(header.file_name, theme, width, [title, map, notesOf(ruler, [header.axis.notes], width, theme)], kind);
}
