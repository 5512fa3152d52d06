// The matrices as one picture file, drawn again at its own sharpness: names, cells and what its colours mean.

import { legendOf, notesOf, rulerOf, savePicture, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { sceneOf } from "./canvas.js";
import { legendFor } from "./legend.js";
import { sizeOf, symbolOf } from "./symbols.js";

const GAP = 12; // between a name and the next matrix
const NARROWEST = 420; // what a picture has room for beside its matrices: a title
const SYMBOL = '"Latin Modern Math", "STIX Two Math", Cambria, Georgia, serif';

/**
 * Every matrix with its name, laid out as on the page.
 * @param {import("./matrices.js").View} view
 */
export function saveMatrices(view) {
  const { boxes, sheet, theme, header, paints } = view;
  const [ruler, page] = [rulerOf(), sheet.getBoundingClientRect()];
  const found = [...boxes.values()].map((box) => ({ box, caption: box.caption.getBoundingClientRect(), corner: box.root.getBoundingClientRect() }));
  const width = Math.max(...found.map(({ box, corner }) => corner.left - page.left + Math.max(box.shape.wide, corner.width)), NARROWEST);
  const bottoms = found.map(({ box, caption, corner }) => corner.top - page.top + caption.height + 4 + box.shape.tall);
  const items = found.flatMap(({ box, caption, corner }) => {
    const [x, y] = [corner.left - page.left, corner.top - page.top];
    const base = /** @type {const} */ ({ kind: "text", text: "", x, y: y + 12, room: Infinity, align: "left", colour: theme.text });
    const symbol = symbolOf(ruler, box.matrix.symbol, { ...base, family: SYMBOL, italic: true, size: 17 }, theme.font);
    const beside = found.map((other) => other.corner).filter(({ left, top }) => left > corner.left && top === corner.top);
    const edge = Math.min(width, ...beside.map(({ left }) => left - page.left - GAP));
    const name = { ...base, text: [sizeOf(box), box.matrix.title].filter(Boolean).join("  "), x: symbol.end + 8, room: edge - symbol.end - 8 };
    const cells = sceneOf({ ...box, focused: null }, theme, paints).map((item) => shifted(item, x, y + caption.height + 4));
    return [...symbol.items, name, ...cells];
  });
  const formulas = notesOf(ruler, header.about.formulas ?? [], width, theme);
  const symbols = formulas.items.flatMap((item) => (item.kind === "text" ? symbolOf(ruler, item.text, { size: 12, ...item }, theme.font).items : []));
  const blocks = [
    titleOf(ruler, header.about, width, theme),
    { items: symbols, height: formulas.height },
    legendOf(ruler, legendFor(view), width, theme),
    { items, height: Math.max(...bottoms, 0) },
  ];
  savePicture(header.file_name, theme, width, blocks);
}
