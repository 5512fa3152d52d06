// What the colours of a map mean, on the page and in a saved picture.

import { NAN } from "../../../transformer/canvas/shared/colours.js";
import { fill } from "../../../transformer/canvas/shared/words.js";
import { marked } from "./paint.js";
import { number } from "./sentences.js";

/**
 * @param {import("./tiles.js").View} view
 * @returns {import("../../../transformer/canvas/shared/saved.js").Legend}
 */
export function meaning(view) {
  const { header, theme, relative, layers } = view;
  const { words, largest } = header;
  const end = relative ? largest : 1;
  const is = marked(layers);
  /** @type {import("../../../transformer/canvas/shared/saved.js").Legend["marks"]} */
  const marks = [];
  if (is.masked) marks.push([words.masked, (context, x, y, side) => hatched(context, x, y, side, theme)]);
  if (is.nan) {
    marks.push([words.nan, (context, x, y, side) => {
      context.fillStyle = NAN;
      context.fillRect(x, y, side, side);
    }]);
  }
  return {
    name: relative ? fill(words.scale_relative, { largest: number(largest, true) }) : fill(words.scale, { largest: number(largest, true) }),
    ticks: [0, 0.5, 1].map((share) => [number(share * end, false), share]),
    marks,
    note: fill(words.axes, { queries: header.query_axis, keys: header.key_axis }),
  };
}

/**
 * A patch as masked cells look.
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} side
 * @param {import("../../../transformer/canvas/shared/colours.js").Theme} theme
 */
function hatched(context, x, y, side, theme) {
  context.fillStyle = `rgb(${theme.masked})`;
  context.fillRect(x, y, side, side);
  context.fillStyle = `rgb(${theme.hatch})`;
  for (let row = 0; row < side; row++) {
    for (let column = (4 - (row & 3)) & 3; column < side; column += 4) context.fillRect(x + column, y + row, 1, 1);
  }
}
