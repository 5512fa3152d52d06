// What tiles say in words: the cell or block that is pointed at, and what a block is.

import { counted, fill } from "../../../transformer/canvas/shared/words.js";
import { blockAt } from "./paint.js";

/**
 * A span of cells as it is counted: `12` or `12–19`.
 * @param {number[]} span
 */
function span([from, to]) {
  return to - from === 1 ? counted(from + 1) : `${counted(from + 1)}–${counted(to)}`;
}

/**
 * A weight as it is read: six digits where it is exact, else two, since a code has no more.
 * @param {number} weight
 * @param {boolean} exact
 */
export function number(weight, exact) {
  return exact ? String(Number(weight.toPrecision(6))) : String(Number(weight.toPrecision(2)));
}

/**
 * One sentence about a cell, or the block that it is in.
 * @param {Pick<import("./tiles.js").View, "header" | "layers">} view
 * @param {[number, number]} cell
 */
export function spoken({ header, layers }, cell) {
  const { words, largest, query_axis: queries, key_axis: keys } = header;
  const here = blockAt(layers, largest, cell);
  if (!here) return "";
  const name = (/** @type {number[]} */ spans, /** @type {string[] | undefined} */ names, /** @type {number[]} */ covered) =>
    (names?.length ? fill(words.named, { place: span(spans), name: names[spans[0] - covered[0]] }) : span(spans));
  const { layer } = here;
  const fields = {
    query_axis: queries,
    key_axis: keys,
    query: name(here.rows, layer.queries, layer.rows),
    key: name(here.columns, layer.keys, layer.columns),
    weight: number(here.weight, here.exact),
  };
  if (here.isMasked) return fill(words.masked_cell, fields);
  if (here.isNan) return fill(words.nan_cell, fields);
  const single = here.rows[1] - here.rows[0] === 1 && here.columns[1] - here.columns[0] === 1;
  return fill(here.exact ? words.cell : single ? words.cell_about : words.block, fields);
}

/**
 * What one block of the picture is.
 * @param {import("./tiles.js").Header} header
 * @param {{ tall: number, wide: number }} layer
 */
export function blockOf({ words }, { tall, wide }) {
  return tall * wide === 1 ? words.cells : fill(words.blocks, { tall: counted(tall), wide: counted(wide) });
}
