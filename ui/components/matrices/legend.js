// What colours and the outlines of cells mean.

import { diverging, scale, STOPS } from "../../../transformer/plots/canvas/shared/colours.js";
import { barOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { lineOf, visible } from "./canvas.js";

const BAR = 64; // width of a scale of colours

/** @typedef {import("../../../transformer/plots/canvas/shared/saved.js").Legend} Legend */

/**
 * What the colours of numbers about 0, of weights, and of masks mean, and each kind of outline that is to be seen. An
 * example is marked, though nobody picked it.
 * @param {Pick<import("./matrices.js").View, "header" | "theme" | "paints" | "selected" | "example">} view
 * @returns {Legend}
 */
export function legendFor({ header, theme, paints, selected, example }) {
  const { matrices, words } = header;
  const masks = matrices.some(({ mask }) => mask);
  /** @type {[there: boolean, text: string, stops: number[][]][]} */
  const scales = [
    [matrices.some(({ weights, mask, asked }) => !weights && !mask && !asked), words.scale, diverging(theme)],
    [matrices.some(({ weights }) => weights), words.weights, STOPS],
    [masks, words.visible, [visible(theme), visible(theme)]],
    [masks, words.hidden, [theme.masked, theme.masked]],
  ];
  /** @type {[there: boolean, text: string, name: keyof import("./canvas.js").Paints][]} */
  const outlines = [
    [selected !== null, example ? words.example : words.picked, "picked"],
    [selected !== null, words.sources, "sources"],
    [selected !== null, words.targets, "targets"],
    [selected !== null, words.further, "further"],
    [header.outline !== "", header.outline, "outlined"],
  ];
  /** @type {Legend["marks"]} */
  const marks = [
    ...scales.filter(([there]) => there).map(([, text, stops]) => /** @type {Legend["marks"][number]} */ ([
      text, (x, y) => barOf((share) => scale(share, stops), x, y + 2, BAR, 10), BAR,
    ])),
    ...outlines.filter(([there]) => there).map(([, text, name]) => /** @type {Legend["marks"][number]} */ ([
      text, (x, y) => [{ kind: "frame", x: x + 1, y: y + 1, width: 11, height: 11, colour: paints[name], ...lineOf(name) }],
    ])),
  ];
  return { name: "", ticks: [], marks, note: "" };
}
