// The lines of the page's record: those of the head that is looked at, if it joins the two sentences.

import { pairSaid, weightsOf } from "../../../transformer/plots/canvas/shared/local.js";

/** @type {import("../../../transformer/plots/canvas/shared/local.js").Local} */
export const local = {
  seen(header, record, choice) {
    const { kind, layer, head, isOther } = shownOf(header, record, choice);
    const order = head ?? kind.heads;
    const weights = weightsOf(kind, layer, head);
    if (!weights) return null;
    return {
      header: {
        ...header,
        shape: [kind.queries.texts.length, kind.keys.texts.length],
        head: header.heads[layer][order],
        file_name: header.file_names[layer][order],
      },
      arrays: { weights },
      options: { selected: isOther ? null : (choice.pair?.[0] ?? null) },
    };
  },
  acted(_, { query }, choice, record, header) {
    const { kind, layer, head, isOther } = shownOf(header, record, choice);
    const count = kind.keys.texts.length;
    const row = (weightsOf(kind, layer, head) ?? new Float32Array()).slice(query * count, (query + 1) * count);
    const key = row.reduce((best, weight, at) => (weight > row[best] || Number.isNaN(row[best]) ? at : best), 0);
    const again = !isOther && choice.pair?.[0] === query && choice.pair?.[1] === key;
    const pair = again ? null : pairSaid(kind, query, key);
    if (!isOther) return { pair };
    return { pair, kind: kind.name, layer: String(layer), head: String(head), heads: null };
  },
};

/**
 * Which head's lines are shown: where the chosen one does not join the sentences, that which the page starts with.
 * @param {any} header
 * @param {import("../../../transformer/plots/canvas/shared/local.js").RecordOfPage} record
 * @param {import("../../../transformer/plots/canvas/shared/local.js").Choice} choice
 */
function shownOf(header, { kinds }, choice) {
  const kind = kinds.find(({ name }) => name === header.kind) ?? kinds[0];
  const isOther = choice.kind !== kind;
  const { layer, head } = isOther ? header.first : choice;
  return { kind, layer: /** @type {number} */ (layer), head: /** @type {number | null} */ (head), isOther };
}
