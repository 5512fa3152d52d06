// What stands inside an attention's box: its heads as small pictures, in one image; and what a net's units hold.

import { rgb } from "../../../transformer/plots/canvas/shared/colours.js";
import { element, pen } from "../../../transformer/plots/canvas/shared/page.js";

const MASKED = 255;
const LARGEST = 254;

/**
 * All heads of an attention as one picture: from the paper's colour (0) to the theme's own (1), masked cells left out.
 * @param {Uint8Array} codes
 * @param {[number, number, number]} shape heads, rows, columns
 * @param {import("./layout.js").Grid} grid
 * @param {import("../../../transformer/plots/canvas/shared/colours.js").Theme} theme
 */
export function headsImage(codes, [heads, rows, columns], grid, theme) {
  const scale = 3;
  const cells = element("canvas", "", null, { width: columns, height: rows });
  const tall = (grid.tall + grid.gap) / grid.lines - grid.gap;
  const [wide, high] = [grid.across * (grid.side + grid.gap) - grid.gap, grid.tall];
  const sheet = element("canvas", "", null, { width: Math.round(wide * scale), height: Math.round(high * scale) });
  const ink = pen(sheet);
  ink.imageSmoothingEnabled = columns > grid.side * scale || rows > tall * scale;
  const [paper, colour] = [rgb(theme.background), rgb(theme.primary)];
  for (let head = 0; head < heads; head++) {
    const picture = pen(cells).createImageData(columns, rows);
    for (let cell = 0; cell < rows * columns; cell++) {
      const code = codes[head * rows * columns + cell];
      const share = code === MASKED ? 0 : code / LARGEST;
      for (let channel = 0; channel < 3; channel++) {
        picture.data[4 * cell + channel] = Math.round(paper[channel] + (colour[channel] - paper[channel]) * share);
      }
      picture.data[4 * cell + 3] = code === MASKED ? 0 : 255;
    }
    pen(cells).putImageData(picture, 0, 0);
    const [x, y] = cornerOf(grid, head);
    ink.drawImage(cells, x * scale, y * scale, grid.side * scale, tall * scale);
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
 * Frames around every head, and a mark along the row of one query.
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
    const top = grid.y + y + (row * tall) / rows;
    path += `M${(grid.x + x).toFixed(1)} ${top.toFixed(1)}h${grid.side}v${Math.max(tall / rows, 1).toFixed(1)}h${-grid.side}z`;
  }
  return path;
}

/**
 * The outlines of all heads.
 * @param {import("./layout.js").Grid} grid
 * @param {number} heads
 */
export function outlines(grid, heads) {
  const tall = (grid.tall + grid.gap) / grid.lines - grid.gap;
  return Array.from({ length: heads }, (_, head) => {
    const [x, y] = cornerOf(grid, head);
    return `M${(grid.x + x).toFixed(1)} ${(grid.y + y).toFixed(1)}h${grid.side}v${tall.toFixed(1)}h${-grid.side}z`;
  }).join("");
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
