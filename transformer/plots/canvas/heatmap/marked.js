// The pair that is marked, in every head of its kind.

import { layerOf, numberOf } from "../shared/local.js";
import { button, element } from "../shared/page.js";
import { fill } from "../shared/words.js";

/**
 * Write the table, or nothing where no pair is marked, or the matrix is of no record.
 * @param {Pick<import("./heatmap.js").View, "header" | "pair" | "marked" | "send">} view
 */
export function makeTable({ header, pair, marked, send }) {
  const { words, kind, layer: shownLayer } = header;
  const shown = JSON.stringify([words, pair, shownLayer]);
  if (marked.dataset.shown === shown && found.get(marked) === kind) return;
  marked.dataset.shown = shown;
  if (kind) found.set(marked, kind);
  marked.replaceChildren();
  if (!pair || !kind) return;
  const [query, key] = pair;
  const [rows, columns] = [kind.queries.texts.length, kind.keys.texts.length];
  const at = (/** @type {number} */ layer, /** @type {number} */ head) => layerOf(kind, layer)?.[(head * rows + query) * columns + key] ?? -1;
  const seen = kind.sites.map((_, layer) => layer).filter((layer) => !(at(layer, 0) < 0)); // windows differ by layer
  const said = { query: kind.queries.labels[query], key: kind.keys.labels[key] };
  const isHere = seen.includes(shownLayer ?? 0);
  marked.append(element("strong", "", words.pair), element("p", "said", fill(isHere ? words.looks : words.hidden, said)));
  if (seen.length) marked.append(tableOf(kind, seen, at, words));
  marked.append(button(words.unmark, () => send("picked", null)));
}

/** Of which kind a table is: another record may have the same words. @type {WeakMap<HTMLElement, object>} */
const found = new WeakMap();

/**
 * What a layer is called: by its number, or by its site where it has none.
 * @param {import("../shared/local.js").Kind} kind
 * @param {number} layer
 * @param {import("./heatmap.js").Header["words"]} words
 */
function nameOf(kind, layer, words) {
  const number = kind.layers ? "" : numberOf(kind, layer);
  return number ? fill(words.layer, { layer: number }) : kind.sites[layer];
}

/**
 * @param {import("../shared/local.js").Kind} kind
 * @param {number[]} layers
 * @param {(layer: number, head: number) => number} at
 * @param {import("./heatmap.js").Header["words"]} words
 */
function tableOf(kind, layers, at, words) {
  const heads = Array.from({ length: kind.heads }, (_, head) => head);
  const table = element("table");
  const top = element("tr");
  top.append(element("td"), ...heads.map((head) => element("th", "", fill(words.head, { head }), { scope: "col" })));
  table.append(top);
  for (const layer of layers) {
    const row = element("tr");
    row.append(element("th", "", nameOf(kind, layer, words), { scope: "row" }));
    for (const head of heads) {
      const weight = at(layer, head);
      const cell = element("td", "weight", Number.isNaN(weight) ? words.nan : weight.toFixed(3));
      const bar = element("i");
      bar.style.width = `${100 * Math.min(Math.max(weight || 0, 0), 1)}%`;
      cell.append(bar);
      row.append(cell);
    }
    table.append(row);
  }
  const scroller = element("div", "scroller");
  scroller.append(table);
  return scroller;
}
