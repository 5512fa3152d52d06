// A head view's weights as float32 (head, query, key), from either of the two forms in which they travel.

import { bit } from "./blob.js";
import { MASKED } from "./lines.js";

const LARGEST_CODE = 254;

/** Float32Array of head * query * key weights: -1 where masked, NaN where not a number. */
export function weightsOf({ header, arrays }) {
  if (arrays.weights) return arrays.weights;
  const keys = header.shape[2];
  const { codes, maxima, top_keys: topKeys, top_weights: topWeights, nan } = arrays;
  const weights = new Float32Array(codes.length);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at];
    weights[at] = code > LARGEST_CODE ? MASKED : (code * maxima[Math.floor(at / keys)]) / LARGEST_CODE;
    if (nan && bit(nan, at)) weights[at] = NaN;
  }
  const each = topKeys.length / maxima.length;
  for (let at = 0; at < topKeys.length; at++) {
    const place = Math.floor(at / each) * keys + topKeys[at];
    if (weights[place] >= 0) weights[place] = topWeights[at];
  }
  return weights;
}
