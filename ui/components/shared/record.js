// The record of the page: the numbers of all its heads, which every component on it draws from. It travels once.

import { decode } from "./blob.js";
import { records, RECORD } from "./local.js";

/** @param {{ data: Uint8Array<ArrayBuffer> }} run */
export default function ({ data }) {
  const { header, arrays } = decode(data);
  const kinds = header.kinds.map((/** @type {any} */ kind, /** @type {number} */ order) => ({ ...kind, weights: arrays[`weights_${order}`] }));
  const [found, mine] = [records(), { ...header, kinds }];
  found.set(header.id, mine);
  window.dispatchEvent(new Event(RECORD));
  return () => {
    if (found.get(header.id) === mine) found.delete(header.id); // Streamlit ends a late run after newer ones have begun
  };
}
