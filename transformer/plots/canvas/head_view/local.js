// The lines of the page's record: those of the layer that is looked at.

import { MASKED } from "../shared/cells.js";
import { layerOf, toggled, weightsOf } from "../shared/local.js";

/** @type {import("../shared/local.js").Local} */
export const local = {
  seen(header, _, { kind, layer, head, pair, active, threshold }) {
    const { queries, keys, heads } = kind;
    const shown = head === null ? weightsOf(kind, layer, null) : layerOf(kind, layer);
    if (!shown) return null;
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
        masked: shown.includes(MASKED),
        decided: kind.decided,
        file_name: file_names[layer],
        about: abouts[layer],
      },
      arrays: { weights: shown },
      options: { active: head === null ? [0] : (active ?? [head]), selected_pair: pair, threshold },
    };
  },
  acted(name, value, choice) {
    if (name === "threshold") return { threshold: String(value) };
    if (name === "heads") return choice.head === null ? {} : { heads: value.join(",") || "none" };
    return toggled(choice, value.query, value.key);
  },
};
