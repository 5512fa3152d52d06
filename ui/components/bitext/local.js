// The lines of the page's record: those of the head that is looked at, whatever kind of attention it is of.

import { rowOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { strongestOf } from "../../../transformer/plots/canvas/shared/decided.js";
import { toggled, weightsOf } from "../../../transformer/plots/canvas/shared/local.js";

/** @type {import("../../../transformer/plots/canvas/shared/local.js").Local} */
export const local = {
  seen(header, _, { kind, layer, head, pair }) {
    const order = head ?? kind.heads;
    const weights = weightsOf(kind, layer, head);
    const { heads, file_names, ...side } = header.sides[kind.name];
    if (!weights) return null;
    return {
      header: {
        ...header,
        ...side,
        shape: [kind.queries.texts.length, kind.keys.texts.length],
        decided: kind.decided ?? [],
        asked: Boolean(kind.decided),
        head: heads[layer][order],
        file_name: file_names[layer][order],
      },
      arrays: { weights },
      options: { selected: pair?.[0] ?? null },
    };
  },
  acted(_, { query }, choice) {
    const { kind, layer, head } = choice;
    const weights = weightsOf(kind, layer, head) ?? new Float32Array();
    return toggled(choice, query, strongestOf(rowOf(weights, kind.keys.texts.length, query)));
  },
};
