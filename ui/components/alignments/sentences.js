// What an alignment says in words: the strongest source words of the target word in focus.

import { rowOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { fill, listed } from "../../../transformer/plots/canvas/shared/words.js";

const SPOKEN = 3; // source words, at most
const LEAST = 0.05; // weight of a source word that is spoken of

/** @typedef {Pick<import("./alignments.js").View, "header" | "arrays" | "moment">} Shown */

/**
 * A target word's weights in one panel, `MASKED` where there is no such key.
 * @param {Shown} view
 * @param {number} panel
 * @param {number} row
 */
export function lookedAt({ header, arrays, moment }, panel, row) {
  return rowOf(arrays[`${moment}.${panel}`], header.columns.length, row);
}

/**
 * What a target word looked at, in each panel where it stands, in words.
 * @param {Shown} view
 * @param {import("./alignments.js").Position} focus
 */
export function spoken(view, focus) {
  const { columns, moments, same_rows: sameRows, words } = view.header;
  const { panels } = moments[view.moment];
  const compared = sameRows && panels.length > 1;
  const told = (/** @type {number} */ order) => {
    const weights = [...lookedAt(view, order, focus.row)].map((weight, column) => ({ weight, column }));
    const top = weights.filter(({ weight }) => weight >= LEAST).sort((a, b) => b.weight - a.weight).slice(0, SPOKEN);
    const each = top.map(({ weight, column }) => {
      return fill(words.weighted, { word: columns[column], weight: weight.toFixed(2) });
    });
    const looked = each.length ? listed(each, words.listed) : words.nothing;
    const [decided] = panels[order].decided[focus.row] ?? [-1];
    const said = decided < 0 ? looked : fill(words.decides, { looked, word: columns[decided] });
    return compared ? fill(words.told, { title: panels[order].title, looked: said }) : said;
  };
  const orders = sameRows ? panels.map((_, order) => order) : [focus.panel];
  const looked = listed(orders.map(told), words.beside);
  return fill(compared ? words.compared : words.looks, { word: panels[focus.panel].rows[focus.row], looked });
}
