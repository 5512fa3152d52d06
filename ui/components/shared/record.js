// The record of the page: the numbers of all its heads, which every component on it draws from. It travels once.

import { decode } from "./blob.js";
import { records, RECORD } from "./local.js";

/** @param {{ data: Uint8Array<ArrayBuffer> }} run */
export default function ({ data }) {
  const { header, arrays } = decode(data);
  const kinds = header.kinds.map((/** @type {any} */ kind, /** @type {number} */ order) => ({ ...kind, weights: arrays[`weights_${order}`] }));
  const found = records();
  found.set(header.id, { ...header, kinds });
  window.dispatchEvent(new Event(RECORD));
  return () => {
    found.delete(header.id);
  };
}
