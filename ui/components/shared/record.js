// The record of the page: the numbers of all its heads, which every component on it draws from. It travels once.

import { decode } from "../../../transformer/plots/canvas/shared/blob.js";
import { keepRecord } from "../../../transformer/plots/canvas/shared/local.js";

/** @param {{ data: Uint8Array<ArrayBuffer> }} run */
export default function ({ data }) {
  return keepRecord(decode(data));
}
