// A head view's weights as float32 (head, query, key), from either of the two forms in which they travel.

import { bit } from "../shared/blob.js";
import { MASKED } from "./lines.js";

const LARGEST_CODE = 254;

/**
 * Weights a byte each, on a scale of their row's largest, and each row's largest as they are.
 * @typedef {object} Rounded
 * @property {Uint8Array} codes
 * @property {Float32Array} maxima
 * @property {Uint32Array} top_keys
 * @property {Float32Array} top_weights
 * @property {Uint8Array} [nan]
 */

/**
 * Float32Array of head * query * key weights: -1 where masked, NaN where not a number.
 * @param {Record<string, any>} arrays `{ weights }` as they are, or Rounded
 * @param {import("./lines.js").Shape} shape
 */
export function weightsOf(arrays, [, , keys]) {
  if (arrays.weights) return /** @type {Float32Array<ArrayBuffer>} */ (arrays.weights);
  const { codes, maxima, top_keys: topKeys, top_weights: topWeights, nan } = /** @type {Rounded} */ (arrays);
  const weights = new Float32Array(codes.length);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at];
    weights[at] = code > LARGEST_CODE ? MASKED : (code * maxima[Math.floor(at / keys)]) / LARGEST_CODE;
    if (nan && bit(nan, at)) weights[at] = NaN;
  }
  const each = topKeys.length / maxima.length;
  for (let at = 0; at < topKeys.length; at++) {
    const position = Math.floor(at / each) * keys + topKeys[at];
    if (weights[position] >= 0) weights[position] = topWeights[at];
  }
  return weights;
}
