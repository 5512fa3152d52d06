// Where pointer and keyboard stand in a matrix.

/**
 * The cell at a point of the canvas, as row and column; null beside the cells, and where some are left out.
 * @param {Pick<import("./canvas.js").Drawn, "shape">} drawn
 * @param {number} x
 * @param {number} y
 * @returns {[number, number] | null}
 */
export function cellAt({ shape }, x, y) {
  const row = shape.rowsAt[Math.floor((y - shape.top) / shape.height)] ?? -1;
  const column = shape.columnsAt[Math.floor((x - shape.left) / shape.width)] ?? -1;
  return row >= 0 && column >= 0 ? [row, column] : null;
}

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
