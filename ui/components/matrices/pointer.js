// Where the pointer stands in a matrix.

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
