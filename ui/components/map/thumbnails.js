// What stands inside an attention's box: its heads as small pictures, in one image; and what a net's units hold.

import { paint } from "../../../transformer/plots/canvas/all_heads/thumbnails.js";
import { lookOf, valuesOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { element, pen } from "../../../transformer/plots/canvas/shared/page.js";

/**
 * All heads of an attention as one picture, in the colours that weights have everywhere; masked cells are left out.
 * @param {Uint8Array} codes
 * @param {[number, number, number]} shape heads, rows, columns
 * @param {import("./layout.js").Grid} grid
 * @param {import("../../../transformer/plots/canvas/shared/colours.js").Theme} theme
 */
export function headsImage(codes, [heads, rows, columns], grid, theme) {
  const dense = 3;
  const [cells, values] = [element("canvas"), valuesOf(codes)];
  const look = { ...lookOf(1, false, theme), masked: 0, hatch: 0 };
  const tall = (grid.tall + grid.gap) / grid.lines - grid.gap;
  const [wide, high] = [grid.across * (grid.side + grid.gap) - grid.gap, grid.tall];
  const sheet = element("canvas", "", null, { width: Math.round(wide * dense), height: Math.round(high * dense) });
  const ink = pen(sheet);
  ink.imageSmoothingEnabled = columns > grid.side * dense || rows > tall * dense;
  ink.strokeStyle = "rgb(128 128 128 / 0.5)";
  for (let head = 0; head < heads; head++) {
    paint(cells, values, [1, heads, rows, columns], head, look, 1);
    const [x, y] = cornerOf(grid, head);
    const corners = /** @type {const} */ ([x * dense, y * dense, grid.side * dense, tall * dense]);
    ink.drawImage(cells, ...corners);
    ink.strokeRect(...corners);
  }
  return sheet.toDataURL();
}

/**
 * Where a head's picture stands within its grid.
 * @param {import("./layout.js").Grid} grid
 * @param {number} head
 */
export function cornerOf(grid, head) {
  const tall = (grid.tall + grid.gap) / grid.lines;
  return [(head % grid.across) * (grid.side + grid.gap), Math.floor(head / grid.across) * tall];
}

/**
 * The head at a place within a grid; null between two of them.
 * @param {import("./layout.js").Grid} grid
 * @param {number} heads
 * @param {number} x
 * @param {number} y
 */
export function headAt(grid, heads, x, y) {
  const [column, line] = [Math.floor(x / (grid.side + grid.gap)), Math.floor(y / ((grid.tall + grid.gap) / grid.lines))];
  const head = line * grid.across + column;
  const inside = x >= 0 && y >= 0 && column < grid.across && line < grid.lines && x % (grid.side + grid.gap) <= grid.side;
  return inside && head < heads ? head : null;
}

/**
 * A tick before the row of one query in every head.
 * @param {import("./layout.js").Grid} grid
 * @param {[number, number, number]} shape
 * @param {number | null} row of the picture
 */
export function rowMarks(grid, [heads, rows], row) {
  if (row === null) return "";
  const tall = (grid.tall + grid.gap) / grid.lines - grid.gap;
  let path = "";
  for (let head = 0; head < heads; head++) {
    const [x, y] = cornerOf(grid, head);
    path += `M${(grid.x + x - 3.4).toFixed(1)} ${(grid.y + y + ((row + 0.5) * tall) / rows).toFixed(1)}h3`;
  }
  return path;
}

/**
 * What groups of hidden units hold, as bars that stand on a line; square roots, as all else here.
 * @param {number[]} strengths from 0 to 1
 * @param {number} x
 * @param {number} y the line
 * @param {number} width
 * @param {number} height
 */
export function barsOf(strengths, x, y, width, height) {
  const each = width / strengths.length;
  return strengths
    .map((strength, place) => {
      const tall = Math.sqrt(strength) * height;
      return tall < 0.3 ? "" : `M${(x + place * each).toFixed(1)} ${y.toFixed(1)}v${(-tall).toFixed(1)}h${(each * 0.72).toFixed(2)}v${tall.toFixed(1)}z`;
    })
    .join("");
}
