// Which lines are drawn between two sentences, and where a head view draws them. A line joins a query (left) to a key (right) for one head.

import { MASKED, rowOf } from "./cells.js";
import { headColour, NAN } from "./colours.js";
import { decidedElsewhere, strongestOf } from "./decided.js";
import { belongs } from "./sides.js";

export const ROW = 24; // CSS pixels a token
const NUMBER = 54; // room for a written weight
const BAR = 4; // room for one head's bar
const LANES = 16; // the height over which a token's lines spread

/** @typedef {[heads: number, queries: number, keys: number]} Shape */

/** @typedef {{ head: number, query: number, key: number, weight: number }} Line */

/** @typedef {ReturnType<typeof layout>} Measures */

/** @typedef {import("./colours.js").Theme} Theme */

/**
 * Where tokens, written weights, bars and lines have their places: `longest` is the width of the longest token, and
 * each of the `active` heads has a lane of its own beside a token, so that no head's line hides another's. The first
 * query stands beside key number `beside`.
 * @param {number} width
 * @param {number} heads
 * @param {number[]} active
 * @param {number} longest
 */
export function layout(width, heads, active, longest, beside = 0) {
  const room = width >= 560 && heads <= 24 ? heads * BAR + 6 : 0;
  const text = Math.min(Math.max(longest + 18, 60), Math.max(width * 0.21, 84), 220);
  const column = Math.round(text + NUMBER + room);
  const lane = Math.min(LANES / active.length, 3);
  const lanes = new Map(active.map((head, order) => [head, lane * (order - (active.length - 1) / 2)]));
  return { width, bars: room, number: NUMBER, column, left: column + 4, right: width - column - 4, lanes, beside };
}

/**
 * The heights at which a line leaves its query and reaches its key.
 * @param {Line} line
 * @param {Pick<Measures, "lanes" | "beside">} measures
 */
export function ends(line, { lanes, beside }) {
  const lane = lanes.get(line.head) ?? 0;
  return [middle(line.query + beside) + lane, middle(line.key) + lane];
}

/**
 * The vertical middle of a token.
 * @param {number} index
 */
export function middle(index) {
  return index * ROW + ROW / 2;
}

/**
 * The key beside which the first query stands. A single query, such as a decision, stands beside the key that it looks
 * at most, in the mean over all heads, so that this line is seen however long the column of keys is.
 * @param {Float32Array} weights
 * @param {Shape} shape
 */
export function besideWhich(weights, [heads, queries, keys]) {
  if (queries !== 1) return 0;
  const all = Array.from({ length: heads }, (_, head) => head);
  const means = Array.from({ length: keys }, (_, key) => mean(weights, [heads, 1, keys], all, 0, key) ?? -1);
  return strongestOf(means);
}

/**
 * Call `use(flat index)` for every weight of the active heads, or for those of one token.
 * @param {Shape} shape
 * @param {number[]} active
 * @param {import("./sides.js").Position | null} only
 * @param {(at: number) => void} use
 */
function visit([, queries, keys], active, only, use) {
  for (const head of active) {
    const first = head * queries * keys;
    if (only?.side === "query") {
      for (let key = 0; key < keys; key++) use(first + only.index * keys + key);
    } else if (only?.side === "key") {
      for (let query = 0; query < queries; query++) use(first + query * keys + only.index);
    } else {
      for (let at = first; at < first + queries * keys; at++) use(at);
    }
  }
}

/**
 * The `cap` strongest lines of at least `threshold`, weakest first, and how many there are in all; NaN ones apart.
 * @param {Float32Array<ArrayBuffer>} weights
 * @param {Shape} shape
 * @param {number[]} active
 * @param {number} threshold
 * @param {import("./sides.js").Position | null} only
 * @param {number} cap
 */
export function strongest(weights, shape, active, threshold, only, cap) {
  /** @type {number[]} */
  const drawn = [];
  /** @type {number[]} */
  const nan = [];
  visit(shape, active, only, (at) => {
    if (weights[at] > 0 && weights[at] >= threshold) drawn.push(at);
    else if (Number.isNaN(weights[at]) && nan.length < cap) nan.push(at);
  });
  const least = Float32Array.from(drawn, (at) => weights[at]).sort().at(-cap) ?? 0; // numbers alone are sorted quickly
  const chosen = drawn.filter((at) => weights[at] >= least).sort((a, b) => weights[b] - weights[a]).slice(0, cap).reverse();
  const [, queries, keys] = shape;
  const line = (/** @type {number} */ at) => ({ head: Math.floor(at / (queries * keys)), query: Math.floor(at / keys) % queries, key: at % keys, weight: weights[at] });
  return { lines: chosen.map(line), nan: nan.map(line), total: drawn.length };
}

/**
 * What to draw for a line: opacity and width grow with the weight; NaN is dashed in a colour of its own.
 * @param {Line} line
 * @param {Measures} measures
 * @param {Theme} theme
 * @returns {import("./scene.js").Stroke}
 */
export function stroke(line, measures, theme, emphasised = false) {
  const nan = Number.isNaN(line.weight);
  const weight = nan ? 0.5 : Math.min(line.weight, 1);
  const [y0, y1] = ends(line, measures);
  return {
    kind: "line",
    x0: measures.left,
    y0,
    x1: measures.right,
    y1,
    colour: nan ? NAN : headColour(line.head, theme, measures.lanes.size),
    alpha: emphasised ? 1 : 0.06 + 0.94 * weight,
    width: 0.6 + 2.4 * weight + (emphasised ? 1.5 : 0),
    dash: nan ? [4, 4] : null,
  };
}

/**
 * The weights of one head.
 * @param {Float32Array<ArrayBuffer>} weights
 * @param {Shape} shape
 * @param {number} head
 */
export function headOf(weights, [, queries, keys], head) {
  return rowOf(weights, queries * keys, head);
}

/**
 * The dotted lines: from each query that a key decides to that one, where the one head that is on looks at another most.
 * @param {[key: number, nats: number][]} decided
 * @param {Float32Array<ArrayBuffer>} weights
 * @param {Shape} shape
 * @param {number[]} active
 * @param {import("./sides.js").Position | null} focus
 * @param {Measures} measures
 * @param {Theme} theme
 * @returns {import("./scene.js").Stroke[]}
 */
export function dotted(decided, weights, shape, active, focus, measures, theme) {
  if (active.length !== 1) return [];
  const elsewhere = decidedElsewhere(decided, headOf(weights, shape, active[0]), shape[2]);
  return elsewhere.filter((line) => belongs(line, focus)).map((line) => {
    const drawn = stroke({ ...line, head: active[0], weight: 1 }, measures, theme);
    return { ...drawn, colour: theme.text, alpha: 0.85, width: 2.5, dash: [2, 5] };
  });
}

/**
 * The line nearest to a point of the sheet, if one passes within `reach` pixels.
 * @param {Line[]} lines
 * @param {number} x
 * @param {number} y
 * @param {Pick<Measures, "left" | "right" | "lanes" | "beside">} measures
 */
export function nearest(lines, x, y, measures, reach = 5) {
  if (x <= measures.left || x >= measures.right) return null;
  const share = (x - measures.left) / (measures.right - measures.left);
  let [low, high] = [0, 1]; // the curve's parameter at x: the same for all lines, because only heights differ
  for (let step = 0; step < 20; step++) {
    const t = (low + high) / 2;
    if (1.5 * t * (1 - t) + t ** 3 < share) low = t;
    else high = t;
  }
  const rise = 3 * low ** 2 - 2 * low ** 3;
  const steepness = (6 * low * (1 - low)) / ((1.5 - 3 * low + 3 * low ** 2) * (measures.right - measures.left));
  /** @type {Line | null} */
  let best = null;
  let bestDistance = reach;
  for (const line of lines) {
    const [from, to] = ends(line, measures);
    const distance = Math.abs(y - from - (to - from) * rise) / Math.hypot(1, (to - from) * steepness);
    if (distance <= bestDistance) [best, bestDistance] = [line, distance]; // later lines are stronger
  }
  return best;
}

/**
 * The weight that is written beside a token: the mean over the active heads; null where masked.
 * @param {Float32Array} weights
 * @param {Shape} shape
 * @param {number[]} active
 * @param {number} query
 * @param {number} key
 */
export function mean(weights, [, queries, keys], active, query, key) {
  let sum = 0;
  for (const head of active) {
    const weight = weights[(head * queries + query) * keys + key];
    if (weight === MASKED) return null;
    sum += weight;
  }
  return active.length ? sum / active.length : null;
}

/**
 * One small bar a head beside each token across from `focus`.
 * @param {Float32Array} weights
 * @param {Shape} shape
 * @param {number[]} active
 * @param {import("./sides.js").Position | null} focus
 * @param {Measures} measures
 * @param {Theme} theme
 */
export function bars(weights, [heads, queries, keys], active, focus, measures, theme) {
  /** @type {import("./scene.js").Box[]} */
  const items = [];
  if (!measures.bars || !focus) return items;
  const across = focus.side === "query" ? keys : queries;
  const start = focus.side === "query" ? measures.width - measures.bars - measures.number : measures.number;
  for (let other = 0; other < across; other++) {
    const [query, key] = focus.side === "query" ? [focus.index, other] : [other, focus.index];
    const base = middle(other + (focus.side === "key" ? measures.beside : 0)) + 9;
    items.push({ kind: "box", x: start + 3, y: base, width: heads * BAR - 1, height: 0.5, colour: theme.border, alpha: 1 });
    for (const head of active) {
      const weight = weights[(head * queries + query) * keys + key];
      if (!(weight > 0)) continue;
      const height = Math.min(weight, 1) * 18;
      const colour = headColour(head, theme, active.length);
      items.push({ kind: "box", x: start + 3 + head * BAR, y: base - height, width: BAR - 1, height, colour, alpha: 1 });
    }
  }
  return items;
}
