// Symbols such as W^Q_0: what follows ^ is set higher, what follows _ lower.

import { element } from "../../../transformer/plots/canvas/shared/page.js";
import { fontOf } from "../../../transformer/plots/canvas/shared/scene.js";
import { written } from "../../../transformer/plots/canvas/shared/words.js";
import { largestOf } from "./canvas.js";

/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Words} Words */
/** @typedef {{ text: string, level: -1 | 0 | 1 }} Part Letters on the line, above it (1) or below it (-1). */

const SMALL = 0.7; // size of raised and lowered letters

/**
 * The parts of a symbol, in order. Only the one letter, or the brackets, after a mark are raised or lowered.
 * @param {string} symbol
 * @returns {Part[]}
 */
export function partsOf(symbol) {
  return [...symbol.matchAll(/([\^_])(?:(\w)|\(([^()]*)\))|[^^_]+|./gs)].map(([all, mark, letter, letters]) => {
    if (!mark) return { text: all, level: 0 };
    return { text: letter ?? letters.replaceAll("_", ""), level: mark === "^" ? 1 : -1 };
  });
}

/**
 * A symbol as nodes of the page.
 * @param {string} symbol
 * @returns {Node[]}
 */
export function symbolNodes(symbol) {
  return partsOf(symbol).map(({ text, level }) => {
    return level ? element(level > 0 ? "sup" : "sub", "", text) : document.createTextNode(text);
  });
}

/**
 * A symbol as a screen reader says it.
 * @param {string} symbol
 */
export function spoken(symbol) {
  return partsOf(symbol).map(({ text }) => text).join(" ");
}

/**
 * A symbol as texts of a scene, from where `look` stands, and where it ends.
 * @param {CanvasRenderingContext2D} ruler
 * @param {string} symbol
 * @param {Words & { size: number }} look of letters on the line
 * @param {string} font
 */
export function symbolOf(ruler, symbol, look, font) {
  let { x } = look;
  const items = partsOf(symbol).map(({ text, level }) => {
    const own = { ...look, text, x, y: look.y - level * look.size * 0.35, size: level ? look.size * SMALL : look.size };
    ruler.font = fontOf(own, font);
    x += ruler.measureText(text).width;
    return own;
  });
  return { items, end: x };
}

/**
 * Rows and columns, and where the colours end, but for weights and masks.
 * @param {Pick<import("./canvas.js").Drawn, "matrix" | "values">} drawn
 */
export function sizeOf({ matrix, values }) {
  const size = `${matrix.rows.length} × ${matrix.columns.length}`;
  return matrix.weights || matrix.mask || matrix.asked ? size : `${size} · ±${written(largestOf(values), 2, "")}`;
}
