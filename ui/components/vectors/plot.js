// A plane of queries and keys on a canvas: all points once, and over them what is in focus.

import { headColour, scale } from "../../../transformer/canvas/shared/colours.js";
import { shortened } from "../../../transformer/canvas/shared/page.js";
import { partners } from "./points.js";

const MARGIN = 26;
const SIZE = 2.6; // half of a point's width
const FAINT = 0.07;

/** @typedef {import("./vectors.js").View} View */

/**
 * Where every point stands on a canvas of this size: both axes on one scale, magnified around the view's middle.
 * @param {Pick<View, "places" | "zoom" | "middle">} view
 * @param {number} width
 * @param {number} height
 */
export function placed({ places, zoom, middle }, width, height) {
  const bounds = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (let i = 0; i < places.length; i += 2) {
    bounds.left = Math.min(bounds.left, places[i]);
    bounds.right = Math.max(bounds.right, places[i]);
    bounds.top = Math.min(bounds.top, -places[i + 1]);
    bounds.bottom = Math.max(bounds.bottom, -places[i + 1]);
  }
  const wide = Math.max(bounds.right - bounds.left, 1e-9);
  const tall = Math.max(bounds.bottom - bounds.top, 1e-9);
  const unit = Math.min((width - 2 * MARGIN) / wide, (height - 2 * MARGIN) / tall) * zoom;
  const [x, y] = middle ?? [(bounds.left + bounds.right) / 2, -(bounds.top + bounds.bottom) / 2];
  const at = new Float32Array(places.length);
  for (let i = 0; i < places.length; i += 2) {
    at[i] = width / 2 + (places[i] - x) * unit;
    at[i + 1] = height / 2 - (places[i + 1] - y) * unit;
  }
  return at;
}

/**
 * The colours of the three ways to colour, each with its name.
 * @param {View} view
 * @returns {[name: string, colour: string][]}
 */
export function meanings({ header, options, theme }) {
  const { words } = header;
  if (options.colour === "class") return header.classes.map((name, i) => [name, headColour(i, theme)]);
  if (options.colour === "side") return [[words.queries, headColour(0, theme)], [words.keys, headColour(1, theme)]];
  return [[words.beginning, coloured(0)], [words.middle, coloured(0.5)], [words.end, coloured(1)]];
}

/**
 * Draw all points; those of other tokens than the word that is looked for stay faint.
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Float32Array} at
 */
export function drawPoints(context, view, at) {
  const { held, header, options, classes, theme } = view;
  const word = options.word.trim().toLowerCase();
  held.points.forEach(({ side, sentence, place }, number) => {
    const tokens = header.sentences[sentence][side];
    const meant = !word || bare(tokens[place]) === word;
    context.globalAlpha = meant ? 0.72 : FAINT;
    if (options.colour === "class") context.fillStyle = headColour(classes[number], theme);
    else if (options.colour === "side") context.fillStyle = headColour(side === "query" ? 0 : 1, theme);
    else context.fillStyle = coloured(tokens.length > 1 ? place / (tokens.length - 1) : 0);
    mark(context, side, at[2 * number], at[2 * number + 1], word && meant ? 2 * SIZE : SIZE);
  });
  context.globalAlpha = 1;
}

/**
 * Draw the point in focus with its token, and lines to those that it shares weight with.
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Float32Array} at
 * @param {number} width
 */
export function drawFocus(context, view, at, width) {
  const { held, header, weights, theme, focus } = view;
  if (focus === null) return;
  const lines = partners(held, header.sentences, weights, focus);
  const { side, sentence, place } = held.points[focus];
  context.strokeStyle = theme.text;
  for (const { number, weight } of lines) {
    context.globalAlpha = 0.25 + 0.75 * weight;
    context.lineWidth = 1 + 3 * weight;
    context.beginPath();
    context.moveTo(at[2 * focus], at[2 * focus + 1]);
    context.lineTo(at[2 * number], at[2 * number + 1]);
    context.stroke();
  }
  context.globalAlpha = 1;
  const named = [{ number: focus, text: header.sentences[sentence][side][place] }, ...lines].reverse();
  context.font = `600 13px ${theme.font}`;
  context.textBaseline = "middle";
  for (const { number, text } of named) {
    const [x, y] = [at[2 * number], at[2 * number + 1]];
    context.fillStyle = number === focus ? theme.primary : theme.text;
    mark(context, held.points[number].side, x, y, 2.2 * SIZE);
    const label = shortened(context, text, 150);
    const wide = context.measureText(label).width;
    const left = x + 9 + wide > width ? x - 9 - wide : x + 9;
    context.fillStyle = theme.background;
    context.globalAlpha = 0.85;
    context.fillRect(left - 2, y - 9, wide + 4, 18);
    context.globalAlpha = 1;
    context.fillStyle = theme.text;
    context.fillText(label, left, y);
  }
}

/**
 * A query as a circle, a key as a square.
 * @param {CanvasRenderingContext2D} context
 * @param {"query" | "key"} side
 * @param {number} x
 * @param {number} y
 * @param {number} size
 */
export function mark(context, side, x, y, size) {
  if (side === "key") {
    context.fillRect(x - size, y - size, 2 * size, 2 * size);
    return;
  }
  context.beginPath();
  context.arc(x, y, size * 1.1, 0, 2 * Math.PI);
  context.fill();
}

/**
 * A token without the mark of a word's beginning, in small letters.
 * @param {string} text
 */
export function bare(text) {
  return text.replace(/^\u2581/, "").toLowerCase();
}

/** @param {number} position */
function coloured(position) {
  return `rgb(${scale(0.08 + 0.84 * position).join(" ")})`;
}
