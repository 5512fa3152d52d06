// The grid of the page's record: every head of the kind that is looked at.

/** @typedef {import("../shared/local.js").Kind} Kind */

/** @type {WeakMap<Kind, import("./thumbnails.js").Thumbnails>} */
const made = new WeakMap();

/** @type {import("../shared/local.js").Local} */
export const local = {
  seen(header, _, { kind, layer, head }) {
    const { sites, heads, queries, keys, name } = kind;
    if (!made.has(kind)) made.set(kind, codesOf(kind.weights));
    return {
      header: {
        ...header,
        ...header.grids[name],
        shape: [sites.length, heads, queries.texts.length, keys.texts.length],
        rows: sites.map((_site, order) => `L${order}`),
        columns: Array.from({ length: heads }, (_none, order) => `H${order}`),
      },
      arrays: made.get(kind) ?? {},
      options: { selected: head === null ? null : [layer, head], off: [] },
    };
  },
  acted: (_, { layer, head }) => ({ layer: String(layer), head: String(head), heads: null }),
};

/**
 * A byte a cell, as `thumbnail_codes` in component.py makes them.
 * @param {Float32Array} weights
 */
export function codesOf(weights) {
  const codes = Uint8Array.from(weights, (weight) => (weight < 0 ? 255 : Math.round(254 * Math.sqrt(Math.min(weight || 0, 1)))));
  if (!weights.some(Number.isNaN)) return { codes };
  const nan = new Uint8Array(Math.ceil(weights.length / 8));
  weights.forEach((weight, at) => {
    if (Number.isNaN(weight)) nan[at >> 3] |= 128 >> (at & 7);
  });
  return { codes, nan };
}
