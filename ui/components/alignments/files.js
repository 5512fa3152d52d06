// Alignments as one picture file, drawn again at its own sharpness: title, sentence, maps and what colours mean.

import { element, pen, savePng, sheetOf } from "../../../transformer/plots/canvas/shared/page.js";
import { legendOf, titleOf, writeLines } from "../../../transformer/plots/canvas/shared/saved.js";
import { paintScene, decidedIn, shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { cellOf, sceneOf, sizeOf } from "./canvas.js";

const PAD = 16;
const GAP = 24;
const LEAST = 220; // pixels of width that a panel's title gets

/**
 * All panels with their titles and notes, side by side as on the page.
 * @param {import("./alignments.js").View} view
 */
export function saveAlignments({ boxes, header, layout, theme, moment }) {
  const ruler = pen(element("canvas"));
  const { columns } = header;
  const column = Math.max(LEAST, sizeOf(layout, 0, columns.length).wide);
  const panels = boxes.flatMap(({ title, note, drawn }) => {
    if (!drawn) return [];
    const said = { title: title.textContent ?? "", lines: [note.textContent ?? ""] };
    return [{ drawn, head: titleOf(ruler, said, column, theme.font), ...sizeOf(layout, drawn.rows.length, columns.length) }];
  });
  const abreast = Math.min(layout.abreast, panels.length);
  const inner = abreast * column + (abreast - 1) * GAP;
  const lines = [header.moments[moment].name, ...header.about.lines];
  const title = titleOf(ruler, { ...header.about, lines }, inner, theme.font);
  const legend = legendOf(ruler, meaningOf(header, moment, theme), inner, theme);
  const heads = Math.max(...panels.map(({ head }) => head.height));
  const tallest = heads + Math.max(...panels.map(({ tall }) => tall)) + GAP;
  const below = PAD + title.height + Math.ceil(panels.length / abreast) * tallest;
  const [width, height] = [inner + 2 * PAD, below + legend.height + PAD];
  const [canvas, context] = sheetOf(width, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
  writeLines(context, title.lines, PAD, PAD, theme);
  panels.forEach(({ drawn, head }, order) => {
    const x = PAD + (order % abreast) * (column + GAP);
    const y = PAD + title.height + Math.floor(order / abreast) * tallest;
    writeLines(context, head.lines, x, y, theme);
    paintScene(context, sceneOf(drawn).map((item) => shifted(item, x, y + heads)), theme.font);
  });
  legend.paint(context, PAD, below);
  savePng(canvas, header.file_name);
}

/**
 * What the colours mean.
 * @param {import("./alignments.js").Header} header
 * @param {number} moment
 * @param {import("../../../transformer/plots/canvas/shared/colours.js").Theme} theme
 * @returns {import("../../../transformer/plots/canvas/shared/saved.js").Legend}
 */
function meaningOf({ masked, moments, words }, moment, theme) {
  /** @type {import("../../../transformer/plots/canvas/shared/saved.js").Legend["marks"]} */
  const marks = [];
  if (masked) marks.push([words.nowhere, (context, x, y, side) => paintScene(context, cellOf(-1, x, y, side, side, theme), theme.font)]);
  if (moments[moment].panels.some(({ decided }) => decided.length)) {
    marks.push([words.decided, (context, x, y, side) => paintScene(context, decidedIn(x, y, side, side), theme.font)]);
  }
  return {
    name: words.weight,
    ticks: [0, 0.25, 0.5, 0.75, 1].map((position) => [String(position), position]),
    marks,
    note: "",
  };
}
