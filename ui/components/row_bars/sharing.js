// What becomes of a row's other weights when one is moved: they are counted in thousandths, and always sum to 1.

export const WHOLE = 1000;

/**
 * `parts` brought to whole thousandths that sum to `whole`, in their proportions; alike where all are 0.
 * What rounding leaves over goes to those that lost most by it, the first of equals.
 * @param {ArrayLike<number>} parts
 * @param {number} whole
 * @returns {number[]}
 */
export function shared(parts, whole) {
  const given = Array.from(parts, (part) => Math.max(part, 0));
  const sum = given.reduce((before, part) => before + part, 0);
  const exact = given.map((part) => (sum > 0 ? (part / sum) * whole : whole / given.length));
  const found = exact.map(Math.floor);
  const left = whole - found.reduce((before, part) => before + part, 0);
  const order = exact.map((part, index) => ({ index, lost: part - found[index] })).sort((a, b) => b.lost - a.lost);
  for (const { index } of order.slice(0, left)) found[index] += 1;
  return found;
}

/**
 * A row after one of its weights was moved to `value`: the others share what is left, in their proportions.
 * A row of one key keeps it.
 * @param {number[]} row
 * @param {number} index
 * @param {number} value
 */
export function moved(row, index, value) {
  if (row.length < 2) return row;
  const kept = Math.min(Math.max(Math.round(value), 0), WHOLE);
  const others = shared(row.filter((_, other) => other !== index), WHOLE - kept);
  return [...others.slice(0, index), kept, ...others.slice(index)];
}
