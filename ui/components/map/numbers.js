// What is said of a part of the map when it is pointed at, or read aloud: its name, its formula, and this run's
// numbers; at no position (-1) these are means over all.

import { fill } from "../../../transformer/plots/canvas/shared/words.js";

/** @typedef {import("./map.js").View} View */

/**
 * @typedef {{ kind: string, title: string, plain: string, formula: string, facts: string[] }} PartHeader
 * @typedef {import("./layout.js").RowHeader} RowHeader
 */

/** @typedef {{ tower: number, row: RowHeader | null, role: "read" | "box" | "before" | "after" | "sum" }} Place */

/**
 * The place of every part, by its number, in the order in which they run.
 * @param {import("./layout.js").TowerHeader[]} towers
 * @returns {Map<number, Place>}
 */
export function placesOf(towers) {
  /** @type {Map<number, Place>} */
  const found = new Map();
  towers.forEach(({ reads, rows }, tower) => {
    found.set(reads, { tower, row: null, role: "read" });
    for (const row of rows) {
      const roles = /** @type {const} */ (
        [["before", row.before], ["box", row.boxes], ["sum", row.sums], ["after", row.after]]
      );
      for (const [role, parts] of roles) for (const part of parts) found.set(part, { tower, row, role });
    }
  });
  return found;
}

/**
 * The position of a tower that is looked at; -1 for the mean of all.
 * @param {View} view
 * @param {number} tower
 */
export function positionIn({ header, step, source }, tower) {
  return header.towers[tower].stepped ? step : source;
}

/**
 * What stands at the positions of a tower.
 * @param {View} view
 * @param {number} tower
 */
function labelsIn({ header }, tower) {
  return header.towers[tower].stepped ? header.steps.labels : header.towers[tower].words;
}

/**
 * The query of an attention that is looked at; -1 where its queries are no positions of the tower.
 * @param {View} view
 * @param {number} tower
 * @param {RowHeader} row
 */
export function queryIn(view, tower, row) {
  const own = row.heads?.queries === labelsIn(view, tower).length;
  return own ? positionIn(view, tower) : -1;
}

/**
 * Where the surest head of a row looks at this step, in few characters; nothing where that is not one answer.
 * @param {View} view
 * @param {number} tower
 * @param {RowHeader} row
 */
export function lookOf(view, tower, row) {
  const sure = sureAt(view.arrays, row.name, queryIn(view, tower, row));
  if (!sure || !row.heads) return "";
  const key = view.header.axes[row.heads.keys][sure.key] ?? "";
  return fill(view.header.words.look, { head: sure.head, key, weight: sure.weight.toFixed(2) });
}

/**
 * This run's numbers of a part, a line each.
 * @param {View} view
 * @param {number} part
 * @returns {string[]}
 */
export function numbersOf(view, part) {
  const { header, arrays, places } = view;
  const { words } = header;
  const place = /** @type {Place} */ (places.get(part));
  const position = positionIn(view, place.tower);
  const lines = [];
  const sum = sumAt(arrays, part, position);
  if (sum) {
    const [found, state, share] = [sum.found, sum.state, sum.share].map((one) => one.toFixed(2));
    lines.push(fill(words.sum, { found, state, share }));
  }
  const scale = arrays[`scale${part}`];
  if (scale) lines.push(fill(words.scale, { scale: valueAt(scale, position).toFixed(3) }));
  if (place.row && place.role === "box") {
    const active = arrays[`active${place.row.name}`];
    if (active) lines.push(fill(words.active, { share: Math.round(100 * valueAt(active, position)) }));
    const look = place.row.heads ? lookOf(view, place.tower, place.row) : "";
    if (look) lines.push(fill(words.surest, { look }));
    const merged = place.row.sums[0];
    const added = merged === undefined ? null : sumAt(arrays, merged, position);
    if (added && !place.row.slim) lines.push(fill(words.adds, { share: added.share.toFixed(2) }));
  }
  if (!lines.length) return lines;
  const word = labelsIn(view, place.tower)[position];
  lines.push(position < 0 ? words.of_all : fill(words.of_step, { word }));
  return lines;
}

/**
 * A part as it is read aloud.
 * @param {View} view
 * @param {number} part
 */
export function spoken(view, part) {
  const { header } = view;
  const { title, plain, facts } = header.parts[part];
  const place = /** @type {Place} */ (view.places.get(part));
  const where = [header.towers[place.tower].title];
  if (place.row && place.row.layer >= 0) where.push(fill(header.words.layer, { layer: place.row.layer }));
  return [`${where.join(", ")}: ${title}`, ...numbersOf(view, part), ...facts, plain].filter(Boolean).join(". ");
}

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
