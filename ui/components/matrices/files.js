// The matrices as one picture file, drawn again at its own sharpness: names, cells and what its colours mean.

import { savePng, sheetOf, shortened } from "../../../transformer/plots/canvas/shared/page.js";
import { titleOf, writeLines } from "../../../transformer/plots/canvas/shared/saved.js";
import { drawMatrix } from "./canvas.js";
import { meanings, scalesOf } from "./legend.js";
import { sizeOf, writeSymbol } from "./symbols.js";

const PAD = 16;
const GAP = 12; // between a name and the next matrix
const LEGEND = 22; // height of a line of the legend
const BAR = 64; // width of a scale of colours
const NARROWEST = 420; // what a picture has room for beside its matrices: a title
const SYMBOL = '"Latin Modern Math", "STIX Two Math", Cambria, Georgia, serif';

/**
 * Every matrix with its name, laid out as on the page.
 * @param {import("./matrices.js").View} view
 */
export function saveMatrices(view) {
  const { boxes, sheet, theme } = view;
  const page = sheet.getBoundingClientRect();
  const found = [...boxes.values()].map((box) => ({ box, corner: box.root.getBoundingClientRect() }));
  const right = found.map(({ box, corner }) => corner.left - page.left + Math.max(box.shape.wide, corner.width));
  const tall = found.map(({ box, corner }) => bottom(box, corner) - page.top);
  const outlines = meanings(view.header, view.selected !== null, view.example);
  const width = Math.max(...right, NARROWEST) + 2 * PAD;
  const { about } = view.header;
  const said = titleOf(sheetOf(1, 1)[1], about, width - 2 * PAD, theme.font);
  const formulas = titleOf(sheetOf(1, 1)[1], { title: "", lines: about.formulas ?? [] }, width - 2 * PAD, theme.font);
  const start = PAD + said.height + formulas.height;
  const legend = legendOf(sheetOf(1, 1)[1], view, outlines, width - 2 * PAD);
  const top = start + legend.height + 4;
  const height = Math.max(...tall, 0) + top + PAD;
  const [canvas, context] = sheetOf(width, height);
  context.fillStyle = theme.background;
  context.fillRect(0, 0, width, height);
  writeLines(context, said.lines, PAD, PAD, theme);
  for (const { text, y, size } of formulas.lines) writeSymbol(context, text, PAD, PAD + said.height + y, size, theme.font, "");
  legend.paint(context, start);
  for (const { box, corner } of found) {
    const caption = box.caption.getBoundingClientRect();
    const [x, y] = [PAD + corner.left - page.left, top + corner.top - page.top];
    context.fillStyle = theme.text;
    const end = writeSymbol(context, box.matrix.symbol, x, y + 12, 17, SYMBOL);
    context.font = `13px ${theme.font}`;
    const text = [sizeOf(box), box.matrix.title].filter(Boolean).join("  ");
    const beside = found.map((other) => other.corner).filter(({ left, top: high }) => left > corner.left && high === corner.top);
    const edge = Math.min(width - PAD, ...beside.map(({ left }) => PAD + left - page.left - GAP));
    context.fillText(shortened(context, text, edge - end - 8), end + 8, y + 12);
    context.save();
    context.translate(x, y + caption.height + 4);
    drawMatrix(context, { ...box, focused: null }, theme, view.paints);
    context.restore();
  }
  savePng(canvas, view.header.file_name);
}

/**
 * Where a matrix ends as a whole, also where the page shows only a part of it.
 * @param {import("./matrices.js").Box} box
 * @param {DOMRect} corner
 */
function bottom(box, corner) {
  return corner.top + box.caption.getBoundingClientRect().height + 4 + box.shape.tall;
}

/**
 * What colours and outlines mean, wrapped: its height at this width, and a way to paint it.
 * @param {CanvasRenderingContext2D} ruler
 * @param {import("./matrices.js").View} view
 * @param {ReturnType<typeof meanings>} outlines
 * @param {number} width
 */
function legendOf(ruler, { header, paints, theme }, outlines, width) {
  ruler.font = `13px ${theme.font}`;
  let [x, row] = [0, 0];
  /** @type {{ wide: number, text: string, name?: keyof import("./canvas.js").Paints, stops?: number[][] }[]} */
  const parts = [
    ...scalesOf(header, theme).map(([text, stops]) => ({ wide: BAR, text, stops })),
    ...outlines.map(([name, text]) => ({ wide: 13, text, name })),
  ];
  const placed = parts.map((part) => {
    const long = part.wide + 6 + ruler.measureText(part.text).width;
    if (x && x + long > width) [x, row] = [0, row + 1];
    const at = { ...part, x, y: row * LEGEND };
    x += long + 16;
    return at;
  });
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} top
   */
  const paint = (context, top) => {
    context.font = `13px ${theme.font}`;
    context.textBaseline = "middle";
    for (const { wide, text, name, stops, x: left, y } of placed) {
      if (stops) drawScale(context, stops, PAD + left, top + y + 2);
      if (name) drawOutline(context, name, paints[name], PAD + left, top + y);
      context.fillStyle = theme.text;
      context.fillText(text, PAD + left + wide + 6, top + y + 7);
    }
    context.setLineDash([]);
  };
  return { height: parts.length ? (row + 1) * LEGEND : 0, paint };
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number[][]} stops
 * @param {number} x
 * @param {number} y
 */
function drawScale(context, stops, x, y) {
  const colours = context.createLinearGradient(x, 0, x + BAR, 0);
  stops.forEach((stop, at) => colours.addColorStop(at / (stops.length - 1), `rgb(${stop.join(",")})`));
  context.fillStyle = colours;
  context.fillRect(x, y, BAR, 10);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} name
 * @param {string} colour
 * @param {number} x
 * @param {number} y
 */
function drawOutline(context, name, colour, x, y) {
  context.strokeStyle = colour;
  context.lineWidth = name === "picked" || name === "outlined" ? 3 : name === "further" ? 1 : 2;
  context.setLineDash(name === "further" ? [2, 2] : []);
  context.strokeRect(x + 1, y + 1, 11, 11);
}
