// The matrices as one picture file, drawn again at its own sharpness: names, cells and what its colours mean.

import { css } from "../../../transformer/plots/canvas/shared/colours.js";
import { shortened } from "../../../transformer/plots/canvas/shared/page.js";
import { legendOf, notesOf, rulerOf, savePicture, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { sceneOf } from "./canvas.js";
import { meanings, scalesOf } from "./legend.js";
import { sizeOf, writeSymbol } from "./symbols.js";

const GAP = 12; // between a name and the next matrix
const BAR = 64; // width of a scale of colours
const NARROWEST = 420; // what a picture has room for beside its matrices: a title
const SYMBOL = '"Latin Modern Math", "STIX Two Math", Cambria, Georgia, serif';

/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Item} Item */

/**
 * Every matrix with its name, laid out as on the page.
 * @param {import("./matrices.js").View} view
 */
export function saveMatrices({ boxes, sheet, theme, header, paints, selected, example }) {
  const page = sheet.getBoundingClientRect();
  const found = [...boxes.values()].map((box) => ({ box, caption: box.caption.getBoundingClientRect(), corner: box.root.getBoundingClientRect() }));
  const width = Math.max(...found.map(({ box, corner }) => corner.left - page.left + Math.max(box.shape.wide, corner.width)), NARROWEST);
  const bottoms = found.map(({ box, caption, corner }) => corner.top - page.top + caption.height + 4 + box.shape.tall);
  const items = found.flatMap(({ box, caption, corner }) => {
    const [x, y] = [corner.left - page.left, corner.top - page.top];
    const name = (/** @type {CanvasRenderingContext2D} */ context) => {
      context.fillStyle = theme.text;
      const end = writeSymbol(context, box.matrix.symbol, 0, 12, 17, SYMBOL);
      context.font = `13px ${theme.font}`;
      const beside = found.map((other) => other.corner).filter(({ left, top }) => left > corner.left && top === corner.top);
      const edge = Math.min(width + page.left, ...beside.map(({ left }) => left - GAP)) - corner.left;
      context.fillText(shortened(context, [sizeOf(box), box.matrix.title].filter(Boolean).join("  "), edge - end - 8), end + 8, 12);
    };
    const cells = sceneOf({ ...box, focused: null }, theme, paints).map((item) => shifted(item, x, y + caption.height + 4));
    return [/** @type {Item} */ ({ kind: "drawing", x, y, draw: name }), ...cells];
  });
  const ruler = rulerOf();
  const formulas = notesOf(ruler, header.about.formulas ?? [], width, theme);
  const symbols = formulas.items.map((item) => {
    if (item.kind !== "text") return item;
    const draw = (/** @type {CanvasRenderingContext2D} */ context) => {
      context.fillStyle = theme.text;
      writeSymbol(context, item.text, 0, 0, item.size ?? 12, theme.font, "");
    };
    return /** @type {const} */ ({ kind: "drawing", x: item.x, y: item.y, draw });
  });
  /** @type {import("../../../transformer/plots/canvas/shared/saved.js").Legend["marks"]} */
  const marks = [];
  for (const [text, stops] of scalesOf(header, theme)) marks.push([text, (x, y) => scaleAt(stops, x, y), BAR]);
  for (const [name, text] of meanings(header, selected !== null, example)) marks.push([text, (x, y) => outlineAt(name, paints[name], x, y)]);
  const blocks = [
    titleOf(ruler, header.about, width, theme),
    { items: symbols, height: formulas.height },
    legendOf(ruler, { name: "", ticks: [], marks, note: "" }, width, theme),
    { items, height: Math.max(...bottoms, 0) },
  ];
  savePicture(header.file_name, theme, width, blocks);
}

/**
 * @param {number[][]} stops
 * @param {number} x
 * @param {number} y
 * @returns {Item[]}
 */
function scaleAt(stops, x, y) {
  return [{ kind: "drawing", x, y: y + 2, draw: (context) => {
    const colours = context.createLinearGradient(0, 0, BAR, 0);
    stops.forEach((stop, at) => colours.addColorStop(at / (stops.length - 1), css(stop)));
    context.fillStyle = colours;
    context.fillRect(0, 0, BAR, 10);
  } }];
}

/**
 * @param {keyof import("./canvas.js").Paints} name
 * @param {string} colour
 * @param {number} x
 * @param {number} y
 * @returns {Item[]}
 */
function outlineAt(name, colour, x, y) {
  const line = name === "picked" || name === "outlined" ? 3 : name === "further" ? 1 : 2;
  return [{ kind: "frame", x: x + 1, y: y + 1, width: 11, height: 11, colour, line, dash: name === "further" ? [2, 2] : [] }];
}
