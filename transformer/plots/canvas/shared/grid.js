// Where the keyboard walks in a grid of cells.

/**
 * Where a key leads from a cell, staying inside; undefined for any other key. With Ctrl, Home and End lead to the first
 * and the last cell of all; arrows go `down` and `across` so many cells.
 * @param {{ key: string, ctrlKey: boolean }} event
 * @param {[number, number]} current
 * @param {number} rows
 * @param {number} columns
 * @returns {[number, number] | undefined}
 */
export function moved({ key, ctrlKey }, [row, column], rows, columns, down = 1, across = 1) {
  /** @type {Record<string, [number, number]>} */
  const targets = {
    ArrowUp: [Math.max(row - down, 0), column],
    ArrowDown: [Math.min(row + down, rows - 1), column],
    ArrowLeft: [row, Math.max(column - across, 0)],
    ArrowRight: [row, Math.min(column + across, columns - 1)],
    Home: [ctrlKey ? 0 : row, 0],
    End: [ctrlKey ? rows - 1 : row, columns - 1],
  };
  return targets[key];
}
