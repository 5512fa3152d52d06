// The lines of the page's record: those of the layer that is looked at.

import { pairSaid, weightsOf } from "../shared/local.js";

/** @type {import("../shared/local.js").Local} */
export const local = {
  seen(header, _, { kind, layer, head, pair, active, threshold }) {
    const { queries, keys, weights, heads } = kind;
    const size = heads * queries.texts.length * keys.texts.length;
    const shown = head === null ? weightsOf(kind, layer, null) : weights.slice(layer * size, (layer + 1) * size);
    const { query_title, key_title, file_names, abouts } = header.sides[kind.name];
    return {
      header: {
        ...header,
        shape: [head === null ? 1 : heads, queries.texts.length, keys.texts.length],
        heads: head === null ? header.names.slice(-1) : header.names.slice(0, heads),
        query_labels: queries.texts,
        key_labels: keys.texts,
        query_title,
        key_title,
        masked: shown.includes(-1),
        exact: true,
        exact_each: 0,
        file_name: file_names[layer],
        about: abouts[layer],
      },
      arrays: { weights: shown },
      options: { active: head === null ? [0] : (active ?? [head]), selected_pair: pair, threshold, slides: true },
    };
  },
  acted(name, value, { kind, pair, head }) {
    if (name === "threshold") return { threshold: String(value) };
    if (name === "heads") return head === null ? {} : { heads: value.join(",") || "none" };
    const again = pair?.[0] === value.query && pair?.[1] === value.key;
    return { pair: again ? null : pairSaid(kind, value.query, value.key) };
  },
};
