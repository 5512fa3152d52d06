// This run's numbers of a part at a step, out of the arrays that Python sent.

/**
 * @typedef {object} Numbers
 * @property {Record<string, any>} arrays
 * @property {number} step the position that is looked at; -1 for the mean of all
 */

/**
 * The mean of an array over all positions, or its value at one.
 * @param {ArrayLike<number>} values
 * @param {number} position
 */
export function valueAt(values, position) {
  if (position >= 0 && position < values.length) return values[position];
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i];
  return sum / Math.max(values.length, 1);
}

/**
 * What a sum added and what was there, and the share of the first; null where that was not watched.
 * @param {Record<string, any>} arrays
 * @param {number} part
 * @param {number} position
 */
export function sumAt(arrays, part, position) {
  const [found, state] = [arrays[`found${part}`], arrays[`state${part}`]];
  if (!found) return null;
  const shares = Array.from(found, (one, at) => (one + state[at] > 0 ? one / (one + state[at]) : 0));
  return { found: valueAt(found, position), state: valueAt(state, position), share: valueAt(shares, position) };
}

/**
 * Where the surest head of a query looks: its number, the key, the weight. Null for all queries at once.
 * @param {Record<string, any>} arrays
 * @param {string} row
 * @param {number} query
 */
export function sureAt(arrays, row, query) {
  const sure = arrays[`sure${row}`];
  if (!sure || query < 0 || 3 * query >= sure.length) return null;
  return { head: sure[3 * query], key: sure[3 * query + 1], weight: sure[3 * query + 2] };
}

/**
 * What the groups of a net's hidden units hold at a position, from 0 to 1; the mean of all positions below 0.
 * @param {Uint8Array} strengths
 * @param {number} groups
 * @param {number} position
 */
export function strengthsAt(strengths, groups, position) {
  const of = (/** @type {number} */ group) => strengths.filter((_, at) => at % groups === group);
  return Array.from({ length: groups }, (_, group) => valueAt(of(group), position) / 255);
}

/**
 * Which row of the pictures stands for a query; null for all at once, or where there is no such query.
 * @param {{ shape: [number, number, number], queries: number }} heads
 * @param {number} query
 */
export function pictureRow({ shape, queries }, query) {
  if (query < 0 || query >= queries) return null;
  return Math.floor(query / Math.ceil(queries / shape[1]));
}
