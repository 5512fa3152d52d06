// The window through which a map is seen: how it zooms and moves, and where its ticks stand. Cells, from 0.

/** @typedef {[top: number, bottom: number, left: number, right: number]} Window */

const LEAST = 4; // cells along a side, where there are so many

/**
 * A span of `length` cells from `start`, moved and shortened so that it lies within `count` cells.
 * @param {number} start
 * @param {number} length
 * @param {number} count
 * @returns {[number, number]}
 */
function within(start, length, count) {
  const size = Math.min(Math.max(length, Math.min(LEAST, count)), count);
  const from = Math.min(Math.max(start, 0), count - size);
  return [from, from + size];
}

/**
 * The window `factor` times as near, where the cell at the share (across, down) of it keeps its place.
 * @param {Window} window
 * @param {[number, number]} shape
 * @param {number} factor
 * @param {number} across
 * @param {number} down
 * @returns {Window}
 */
export function zoomed([top, bottom, left, right], [rows, columns], factor, across, down) {
  const span = (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ count, /** @type {number} */ share) => {
    const size = Math.min(Math.max((to - from) / factor, Math.min(LEAST, count)), count);
    return within(from + share * (to - from) - share * size, size, count);
  };
  return [...span(top, bottom, rows, down), ...span(left, right, columns, across)];
}

/**
 * The window moved by so many cells.
 * @param {Window} window
 * @param {[number, number]} shape
 * @param {number} down
 * @param {number} across
 * @returns {Window}
 */
export function panned([top, bottom, left, right], [rows, columns], down, across) {
  return [...within(top + down, bottom - top, rows), ...within(left + across, right - left, columns)];
}

/**
 * The window moved as little as it takes to show a cell.
 * @param {Window} window
 * @param {[number, number]} shape
 * @param {[number, number]} cell
 * @returns {Window}
 */
export function showing(window, shape, [row, column]) {
  const [top, bottom, left, right] = window;
  const past = (/** @type {number} */ place, /** @type {number} */ from, /** @type {number} */ to) =>
    place < from ? place - from : Math.max(0, place + 1 - to);
  return panned(window, shape, past(row, top, bottom), past(column, left, right));
}

/**
 * The whole cells that a window touches.
 * @param {Window} window
 * @param {[number, number]} shape
 * @returns {Window}
 */
export function settled([top, bottom, left, right], [rows, columns]) {
  const near = 1e-6; // what rounding adds is no cell
  return [
    Math.max(0, Math.floor(top + near)), Math.min(rows, Math.ceil(bottom - near)),
    Math.max(0, Math.floor(left + near)), Math.min(columns, Math.ceil(right - near)),
  ];
}

/**
 * Whether two windows are the same cells.
 * @param {readonly number[]} one
 * @param {readonly number[]} other
 */
export function same(one, other) {
  return one.every((edge, index) => edge === other[index]);
}

/**
 * Cells to be numbered along a side that shows `from` to `to` in `room` pixels: round numbers, counted from 1.
 * @param {number} from
 * @param {number} to
 * @param {number} room
 * @param {number} apart pixels from one to the next, at least
 * @returns {number[]}
 */
export function ticks(from, to, room, apart) {
  const most = Math.max(1, Math.floor(room / apart));
  let step = 1;
  for (let order = 1; (to - from) / step > most; order *= 10) {
    step = [1, 2, 5, 10].map((one) => one * order).find((one) => (to - from) / one <= most) ?? 10 * order;
  }
  const found = [];
  for (let number = Math.max(step, Math.ceil((from + 1) / step) * step); number <= to; number += step) found.push(number - 1);
  return step > 1 && from < 1 ? [0, ...found] : found;
}
