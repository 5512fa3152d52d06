// What the outlines of cells mean.

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
