// The grid of the page's record: every head of the kind that is looked at, or of all kinds, which has numbers of its own.

import { layerOf, numberOf } from "../shared/local.js";

/** @typedef {import("../shared/local.js").Kind} Kind */
/** @typedef {[kind: number, layer: number]} Place What a row of the grid shows. */

/** @type {import("../shared/local.js").Local} */
export const local = {
  seen(header, record, { kind, layer, head, pair }, _, arrays) {
    if (header.places) {
      const layers = header.places.map((/** @type {Place} */ place) => (record.kinds[place[0]] === kind ? place[1] : null));
      const row = layers.indexOf(layer);
      return { header, arrays, options: { selected: head === null || row < 0 ? null : [row, head], pair: pairIn(kind, pair, layers) } };
    }
    const { sites, heads, queries, keys, name } = kind;
    if (!header.grids[name]) return null; // another kind's thumbnails are on their way
    const { size } = header.grids[name];
    return {
      header: {
        ...header,
        ...header.grids[name],
        shape: [sites.length, heads, ...(size ?? [queries.texts.length, keys.texts.length])],
        rows: sites.map((_site, order) => [numberOf(kind, order)].filter(Boolean).map((number) => `L${number}`).join("")),
        columns: Array.from({ length: heads }, (_none, order) => `H${order}`),
      },
      arrays: size ? arrays : { weights: kind.weights },
      options: { selected: head === null ? null : [layer, head], pair: pairIn(kind, pair, sites.map((_site, order) => order)) },
    };
  },
  acted(_, { layer, head }, _choice, { kinds }, header) {
    const [kind, own] = header.places?.[layer] ?? [0, layer];
    return { layer: header.places ? (kinds[kind].layers?.[own] ?? null) : String(layer), head: String(head), heads: null };
  },
};

/**
 * Where a marked pair lies in every thumbnail, as shares of its sides, and its weight there by row and head: below 0 where
 * it is masked, none where that is not here.
 * @param {Kind} kind
 * @param {[number, number] | null} pair
 * @param {(number | null)[]} layers the layer of each row, null for one of another kind
 */
export function pairIn(kind, pair, layers) {
  if (!pair) return null;
  const [query, key] = pair;
  const [rows, columns] = [kind.queries.texts.length, kind.keys.texts.length];
  const weights = layers.map((layer) => {
    const found = layer === null ? null : layerOf(kind, layer);
    return Array.from({ length: found ? kind.heads : 0 }, (_, head) => found?.[(head * rows + query) * columns + key] ?? NaN);
  });
  return { at: [(query + 0.5) / rows, (key + 0.5) / columns], weights };
}
