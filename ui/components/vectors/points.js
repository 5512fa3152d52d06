// Points of a plane of queries and keys: where each stands, what it is, and with which ones it shares weight.

/** @typedef {"query" | "key"} Side */

/** @typedef {{ side: Side, sentence: number, place: number }} Point A query or key of a sentence, from 0. */

/** @typedef {{ query: string[], key: string[] }} Sentence The tokens of a sentence's queries and keys. */

/**
 * @typedef {object} Held
 * @property {Point[]} points queries of all sentences, then their keys
 * @property {{ query: number[], key: number[], weights: number[] }} starts where each sentence begins
 */

const LEAST = 0.05; // weight of a line
const LINES = 6; // at most, from one point

/**
 * Every point by its number, and where sentences begin in points and weights.
 * @param {Sentence[]} sentences
 * @returns {Held}
 */
export function pointsOf(sentences) {
  /** @type {Held} */
  const held = { points: [], starts: { query: [], key: [], weights: [] } };
  for (const side of /** @type {const} */ (["query", "key"])) {
    sentences.forEach((tokens, sentence) => {
      held.starts[side].push(held.points.length);
      tokens[side].forEach((_, place) => held.points.push({ side, sentence, place }));
    });
  }
  let cells = 0;
  for (const { query, key } of sentences) {
    held.starts.weights.push(cells);
    cells += query.length * key.length;
  }
  return held;
}

/**
 * The number of a point; null where there is none.
 * @param {Held} held
 * @param {Sentence[]} sentences
 * @param {Point | null} point
 */
export function numberOf(held, sentences, point) {
  if (!point || !(sentences[point.sentence]?.[point.side][point.place] !== undefined)) return null;
  return held.starts[point.side][point.sentence] + point.place;
}

/**
 * The points across from one in its sentence, with their weights, the largest first.
 * @param {Held} held
 * @param {Sentence[]} sentences
 * @param {Float32Array<ArrayBuffer>} weights
 * @param {number} number
 */
export function partners(held, sentences, weights, number) {
  const { side, sentence, place } = held.points[number];
  const other = side === "query" ? "key" : "query";
  const { length: width } = sentences[sentence].key;
  const found = sentences[sentence][other].map((text, index) => {
    const [row, column] = side === "query" ? [place, index] : [index, place];
    const weight = weights[held.starts.weights[sentence] + row * width + column];
    return { number: held.starts[other][sentence] + index, text, weight };
  });
  return found.filter(({ weight }) => weight >= LEAST).sort((a, b) => b.weight - a.weight).slice(0, LINES);
}

/**
 * The point that a key leads to: along the sentence (its queries, then its keys), or the same place of another one.
 * @param {Held} held
 * @param {Sentence[]} sentences
 * @param {number | null} number
 * @param {string} key
 * @returns {number | null} null for a key that leads nowhere
 */
export function stepped(held, sentences, number, key) {
  if (number === null) return ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key) ? 0 : null;
  const { side, sentence, place } = held.points[number];
  const tokens = sentences[sentence];
  const along = (side === "query" ? 0 : tokens.query.length) + place;
  const last = tokens.query.length + tokens.key.length - 1;
  const to = { ArrowLeft: along - 1, ArrowRight: along + 1, Home: 0, End: last }[key];
  if (to !== undefined) {
    const at = Math.min(Math.max(to, 0), last);
    const isQuery = at < tokens.query.length;
    return isQuery ? held.starts.query[sentence] + at : held.starts.key[sentence] + at - tokens.query.length;
  }
  const next = { ArrowUp: sentence - 1, ArrowDown: sentence + 1 }[key];
  if (next === undefined) return null;
  const there = Math.min(Math.max(next, 0), sentences.length - 1);
  return held.starts[side][there] + Math.min(place, sentences[there][side].length - 1);
}

/**
 * The number of the point nearest to a place on the canvas, within `reach`; null where none is.
 * @param {Float32Array | number[]} at x and y of every point
 * @param {number} x
 * @param {number} y
 * @param {number} reach
 */
export function nearest(at, x, y, reach) {
  let [best, least] = [-1, reach * reach];
  for (let i = 0; i < at.length; i += 2) {
    const apart = (at[i] - x) ** 2 + (at[i + 1] - y) ** 2;
    if (apart < least) [best, least] = [i / 2, apart];
  }
  return best < 0 ? null : best;
}
