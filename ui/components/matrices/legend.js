// What colours and the outlines of cells mean.

import { ends, STOPS } from "../../../transformer/plots/canvas/shared/colours.js";
import { visible } from "./canvas.js";

/** @typedef {[keyof import("./canvas.js").Paints, string]} Outline A colour by its name, and its meaning. */

/**
 * What each kind of outline that is to be seen means, in words.
 * @param {import("./matrices.js").Header} header
 * @param {boolean} picked whether a cell is marked
 * @param {boolean} example whether it is an example, which nobody picked
 * @returns {Outline[]}
 */
export function meanings(header, picked, example) {
  const relations = /** @type {const} */ (["picked", "sources", "targets", "further"]);
  /** @type {Outline[]} */
  const found = picked ? relations.map((name) => [name, header.words[example && name === "picked" ? "example" : name]]) : [];
  return header.outline ? [...found, ["outlined", header.outline]] : found;
}

/**
 * What colours mean, and their stops: those of numbers about 0, of weights, and of masks, where there are any.
 * @param {import("./matrices.js").Header} header
 * @param {import("./matrices.js").View["theme"]} theme
 * @returns {[text: string, stops: number[][]][]}
 */
export function scalesOf(header, theme) {
  const { low, middle, high } = ends(theme);
  const masks = header.matrices.some(({ mask }) => mask);
  /** @type {[there: boolean, text: string, stops: number[][]][]} */
  const kinds = [
    [header.matrices.some(({ weights, mask, asked }) => !weights && !mask && !asked), header.words.scale, [low, middle, high]],
    [header.matrices.some(({ weights }) => weights), header.words.weights, STOPS],
    [masks, header.words.visible, [visible(theme), visible(theme)]],
    [masks, header.words.hidden, [theme.masked, theme.masked]],
  ];
  return kinds.filter(([there]) => there).map(([, text, stops]) => [text, stops]);
}
