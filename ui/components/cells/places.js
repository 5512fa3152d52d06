// Where a heatmap of Plotly's has its cells on the screen.

/** @typedef {{ left: number, top: number, width: number, height: number }} Box */

/**
 * The part of the window that a plot's cells take, and one cell's; null where the plot is not drawn, and no cell where
 * zooming has put it out of sight. Rows and columns have their middles at whole numbers of the axes.
 * @param {string} plot the plot's key
 * @param {[number, number]} cell row and column
 * @returns {{ area: Box, cell: Box | null } | null}
 */
export function boxOf(plot, [row, column]) {
  const drawn = document.querySelector(`.st-key-${CSS.escape(plot)} .js-plotly-plot`);
  const cells = drawn?.querySelector("rect.nsewdrag");
  const { layout } = /** @type {{ layout?: { xaxis?: { range?: number[] }, yaxis?: { range?: number[] } } }} */ (drawn ?? {});
  const [across, down] = [layout?.xaxis?.range, layout?.yaxis?.range];
  if (!cells || !across || !down) return null;
  const { left, top, width, height } = cells.getBoundingClientRect();
  const area = { left, top, width, height };
  return { area, cell: within(area, across, down, row, column) };
}

/**
 * A cell's box inside the plot's, whose axes show these ranges, left to right and top to bottom.
 * @param {Box} area
 * @param {number[]} across
 * @param {number[]} down
 * @param {number} row
 * @param {number} column
 * @returns {Box | null}
 */
export function within(area, across, down, row, column) {
  const [bottom, top] = down;
  const unit = { x: area.width / (across[1] - across[0]), y: area.height / (bottom - top) };
  const box = {
    left: area.left + (column - 0.5 - across[0]) * unit.x,
    top: area.top + (row - 0.5 - top) * unit.y,
    width: unit.x,
    height: unit.y,
  };
  const middle = { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  const seen = middle.x > area.left && middle.x < area.left + area.width && middle.y > area.top && middle.y < area.top + area.height;
  return seen ? box : null;
}
