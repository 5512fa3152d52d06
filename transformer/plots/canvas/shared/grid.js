// Where the keyboard walks in a grid of cells.

/**
 * Where a key leads from a cell, staying inside; undefined for any other key.
 * @param {string} key
 * @param {[number, number]} current
 * @param {number} rows
 * @param {number} columns
 * @returns {[number, number] | undefined}
 */
export function moved(key, [row, column], rows, columns) {
  /** @type {Record<string, [number, number]>} */
  const targets = {
    ArrowUp: [Math.max(row - 1, 0), column],
    ArrowDown: [Math.min(row + 1, rows - 1), column],
    ArrowLeft: [row, Math.max(column - 1, 0)],
    ArrowRight: [row, Math.min(column + 1, columns - 1)],
    Home: [row, 0],
    End: [row, columns - 1],
  };
  return targets[key];
}
