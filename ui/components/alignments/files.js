// Alignments as one picture file, drawn again at its own sharpness: title, sentence, maps and what colours mean.

import { legendOf, rulerOf, savePicture, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { legendFor, sceneOf, sizeOf } from "./canvas.js";

const GAP = 24;
const LEAST = 220; // pixels of width that a panel's title gets

/**
 * All panels with their titles and notes, side by side as on the page.
 * @param {import("./alignments.js").View} view
 */
export function saveAlignments({ boxes, header, layout, theme, moment }) {
  const ruler = rulerOf();
  const { columns } = header;
  const column = Math.max(LEAST, sizeOf(layout, 0, columns.length).wide);
  const panels = boxes.flatMap(({ title, note, drawn }) => {
    if (!drawn) return [];
    const said = { title: title.textContent ?? "", lines: [note.textContent ?? ""] };
    return [{ drawn, head: titleOf(ruler, said, column, theme), ...sizeOf(layout, drawn.rows.length, columns.length) }];
  });
  const abreast = Math.min(layout.abreast, panels.length);
  const inner = abreast * column + (abreast - 1) * GAP;
  const heads = Math.max(...panels.map(({ head }) => head.height));
  const tallest = heads + Math.max(...panels.map(({ tall }) => tall)) + GAP;
  const items = panels.flatMap(({ drawn, head }, order) => {
    const [x, y] = [(order % abreast) * (column + GAP), Math.floor(order / abreast) * tallest];
    return [...head.items.map((item) => shifted(item, x, y)), ...sceneOf(drawn).map((item) => shifted(item, x, y + heads))];
  });
  const about = { ...header.about, lines: [header.moments[moment].name, ...header.about.lines] };
  const blocks = [
    titleOf(ruler, about, inner, theme),
    { items, height: Math.ceil(panels.length / abreast) * tallest },
    legendOf(ruler, legendFor(header, moment, theme), inner, theme),
  ];
  savePicture(header.file_name, theme, inner, blocks);
}
