// Draws a window of a map on a canvas: pixels, numbers where they fit, names or numbers of rows and columns, the cursor.

import { inkOn, scale } from "../../../transformer/canvas/shared/colours.js";
import { shortened } from "../../../transformer/canvas/shared/page.js";
import { counted } from "../../../transformer/canvas/shared/words.js";
import { paint, palette } from "./paint.js";
import { ticks } from "./window.js";

const LEFT = { named: 118, numbered: 56 };
const TOP = { named: 96, numbered: 26 };
const RIGHT = 8;
const NAMED = 13; // pixels of a cell that its name needs
const NUMBERED = { wide: 36, tall: 16 }; // pixels of a cell that its number needs
const TALLEST = 640;

/**
 * Where the map lies on its canvas.
 * @typedef {object} Geometry
 * @property {number} left
 * @property {number} top
 * @property {number} width of the map alone
 * @property {number} height
 * @property {number} wide of the canvas
 * @property {number} tall
 * @property {boolean} named whether rows and columns are named
 */

/**
 * @param {import("./tiles.js").View} view
 * @param {number} wide
 * @returns {Geometry}
 */
export function geometry({ header: { shape }, window, layers }, wide) {
  const [rows, columns] = shape;
  const map = Math.max(120, wide - LEFT.numbered - RIGHT);
  const height = Math.min(TALLEST, Math.max(90, Math.round(map * Math.min(1, rows / columns))));
  const part = layers.at(-1);
  const [down, across] = [height / (window[1] - window[0]), map / (window[3] - window[2])];
  const few = rows <= 40 || down >= NAMED;
  const named = Boolean(part?.queries?.length) && few && across >= NAMED && wide > 360;
  const [left, top] = named ? [LEFT.named, TOP.named] : [LEFT.numbered, TOP.numbered];
  const width = Math.max(120, wide - left - RIGHT);
  return { left, top, width, height, wide, tall: top + height + 4, named };
}

/**
 * @param {CanvasRenderingContext2D} context in CSS pixels
 * @param {import("./tiles.js").View} view
 * @param {Geometry} place
 * @param {[number, number] | null} cursor
 */
export function drawMap(context, view, place, cursor) {
  const { header, theme, window, layers, relative } = view;
  const ratio = context.getTransform().a;
  const [width, height] = [Math.round(place.width * ratio), Math.round(place.height * ratio)];
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const end = relative ? header.largest : 1;
  paint(pixels, width, height, window, layers, palette(theme, header.largest, end));
  context.putImageData(image, Math.round(place.left * ratio), Math.round(place.top * ratio));
  context.strokeStyle = theme.border;
  context.lineWidth = 1;
  context.strokeRect(place.left - 0.5, place.top - 0.5, place.width + 1, place.height + 1);
  const cell = { wide: place.width / (window[3] - window[2]), tall: place.height / (window[1] - window[0]) };
  /**
   * @param {number} row
   * @param {number} column
   * @returns {[number, number]}
   */
  const at = (row, column) => [place.left + (column - window[2]) * cell.wide, place.top + (row - window[0]) * cell.tall];
  edges(context, view, place, at);
  labels(context, view, place, cell, at);
  numbers(context, view, place, cell, at, end);
  if (cursor) outline(context, view, place, cell, at(...cursor));
}

/**
 * Lines before the rows and columns where something else begins.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./tiles.js").View} view
 * @param {Geometry} place
 * @param {(row: number, column: number) => [number, number]} at
 */
function edges(context, { header, theme, window: [top, bottom, left, right] }, place, at) {
  const [rows, columns] = header.edges;
  context.beginPath();
  for (const row of rows.filter((one) => one > top && one < bottom)) {
    context.moveTo(place.left, at(row, left)[1]);
    context.lineTo(place.left + place.width, at(row, left)[1]);
  }
  for (const column of columns.filter((one) => one > left && one < right)) {
    context.moveTo(at(top, column)[0], place.top);
    context.lineTo(at(top, column)[0], place.top + place.height);
  }
  context.strokeStyle = theme.background;
  context.lineWidth = 1;
  context.stroke();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./tiles.js").View} view
 * @param {Geometry} place
 * @param {{ wide: number, tall: number }} cell
 * @param {(row: number, column: number) => [number, number]} at
 */
function labels(context, { theme, window, layers }, place, cell, at) {
  const [top, bottom, left, right] = window;
  const part = layers.at(-1);
  context.fillStyle = theme.text;
  context.font = `11px ${theme.font}`;
  context.textBaseline = "middle";
  /**
   * @param {string[] | undefined} names
   * @param {[number, number] | undefined} span
   */
  const named = (names, span) => (/** @type {number} */ index) => (place.named && span && names?.[index - span[0]]) || counted(index + 1);
  const [query, key] = [named(part?.queries, part?.rows), named(part?.keys, part?.columns)];
  const apart = place.named ? 0.99 : 26;
  context.textAlign = "right";
  for (const row of ticks(top, bottom, place.height, place.named ? cell.tall * apart : apart)) {
    const y = at(row + 0.5, left)[1];
    if (y < place.top || y > place.top + place.height) continue;
    context.fillText(shortened(context, query(row), place.left - 8), place.left - 5, y);
  }
  for (const column of ticks(left, right, place.width, place.named ? cell.wide * apart : 54)) {
    const x = at(top, column + 0.5)[0];
    if (x < place.left || x > place.left + place.width) continue;
    context.save();
    context.translate(x, place.top - 6);
    if (place.named) context.rotate(-Math.PI / 2);
    context.textAlign = place.named ? "left" : x < place.left + 24 ? "left" : x > place.left + place.width - 24 ? "right" : "center";
    context.fillText(shortened(context, key(column), place.named ? place.top - 10 : 90), 0, place.named ? 0 : -5);
    context.restore();
  }
}

/**
 * Numbers in cells that have room for them, as they are.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./tiles.js").View} view
 * @param {Geometry} place
 * @param {{ wide: number, tall: number }} cell
 * @param {(row: number, column: number) => [number, number]} at
 * @param {number} end
 */
function numbers(context, { layers }, place, cell, at, end) {
  const part = layers.at(-1);
  if (!part?.values || cell.wide < NUMBERED.wide || cell.tall < NUMBERED.tall) return;
  const columns = part.columns[1] - part.columns[0];
  context.save();
  context.beginPath();
  context.rect(place.left, place.top, place.width, place.height);
  context.clip();
  context.font = "11px sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  part.values.forEach((value, index) => {
    if (part.codes[index] === 255 || Number.isNaN(value)) return;
    const [x, y] = at(part.rows[0] + Math.floor(index / columns) + 0.5, part.columns[0] + (index % columns) + 0.5);
    context.fillStyle = inkOn(scale(end ? value / end : 0));
    context.fillText(short(value), x, y);
  });
  context.restore();
}

/**
 * A weight in at most six characters.
 * @param {number} value
 */
export function short(value) {
  return value === 0 || value >= 0.0005 ? value.toFixed(3) : value.toExponential(0);
}

/**
 * A ring around the cell of the cursor, however small the cell is.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./tiles.js").View} view
 * @param {Geometry} place
 * @param {{ wide: number, tall: number }} cell
 * @param {[number, number]} corner
 */
function outline(context, { theme }, place, cell, [x, y]) {
  const [wide, tall] = [Math.max(cell.wide, 9), Math.max(cell.tall, 9)];
  const [left, top] = [x + cell.wide / 2 - wide / 2, y + cell.tall / 2 - tall / 2];
  if (left + wide < place.left || left > place.left + place.width || top + tall < place.top || top > place.top + place.height) return;
  context.lineWidth = 3;
  context.strokeStyle = theme.background;
  context.strokeRect(left, top, wide, tall);
  context.lineWidth = 1.5;
  context.strokeStyle = "#ff1f6b";
  context.strokeRect(left, top, wide, tall);
}
