// A head view as a file: the whole sheet with its labels, not only what is scrolled into view.

import { headColour } from "./colours.js";
import { footer, numberText, readout } from "./head_view_words.js";
import { mean, middle, ROW } from "./lines.js";
import { element, pixelRatio, save, savePng, wrapped } from "./page.js";
import { paintScene, svgOf } from "./scene.js";
import { shownHeads } from "./choices.js";

const PAD = 16;
const CHIP = 110; // a head's place in the legend
const LINE = 20;

/** Let the reader keep the view as a "PNG" or an "SVG". */
export function saveHeadView(view, kind) {
  const { header, theme } = view;
  const { items, width, height } = pictureOf(view);
  if (kind === "SVG") {
    const text = svgOf(items, width, height, theme.font);
    save(new Blob([text], { type: "image/svg+xml" }), `${header.file_name}.svg`);
    return;
  }
  const ratio = pixelRatio(width, height);
  const canvas = element("canvas");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  paintScene(context, items, theme.font);
  savePng(canvas, header.file_name);
}

function pictureOf(view) {
  const { header, measures, theme } = view;
  const active = shownHeads(view.choices);
  const inner = measures.width;
  const text = (words, x, y, room, more = {}) =>
    ({ kind: "text", text: words, x: x + PAD, y, room, align: "left", colour: theme.text, ...more });
  const items = [];
  const across = Math.max(1, Math.floor(inner / CHIP));
  active.forEach((head, place) => {
    const [x, y] = [(place % across) * CHIP, PAD + 8 + Math.floor(place / across) * LINE];
    items.push({ kind: "box", x: x + PAD, y: y - 6, width: 12, height: 12, colour: headColour(head, theme) });
    items.push(text(header.heads[head], x + 18, y, CHIP - 24));
  });
  const titles = PAD + Math.ceil(active.length / across) * LINE + 14;
  items.push(text(header.query_title, 0, titles, inner / 2 - 8, { bold: true }));
  items.push(text(header.key_title, inner, titles, inner / 2 - 8, { bold: true, align: "right" }));
  const top = titles + 16;
  for (const item of sheetItems(view, active)) items.push(shifted(item, PAD, top));
  let y = top + Math.max(header.shape[1], header.shape[2]) * ROW + 20;
  const said = view.choices.pair ? [readout(view, active), footer(view, active)] : [footer(view, active)];
  const measure = element("canvas").getContext("2d");
  measure.font = `12px ${theme.font}`;
  for (const line of said.flatMap((words) => wrapped(measure, words, inner))) {
    items.push(text(line, 0, y, inner, { size: 12 }));
    y += 17;
  }
  const [width, height] = [inner + 2 * PAD, y + PAD];
  return { items: [{ kind: "box", x: 0, y: 0, width, height, colour: theme.background }, ...items], width, height };
}

/** Lines and bars as on the screen, and the tokens, which on the screen are elements. */
function sheetItems(view, active) {
  const { header, measures, focus, theme, weights } = view;
  const items = [...view.scene(active)];
  for (const side of ["query", "key"]) {
    const [right, edge] = side === "query" ? [true, measures.left - 8] : [false, measures.right + 8];
    const room = measures.column - measures.number - measures.bars - 8;
    header[`${side}_labels`].forEach((label, index) => {
      const bold = focus?.side === side && focus.index === index;
      const base = { kind: "text", y: middle(index), colour: theme.text };
      items.push({ ...base, text: label, x: edge, room, bold, align: right ? "right" : "left" });
      if (!focus || focus.side === side || !active.length) return;
      const [query, key] = side === "query" ? [index, focus.index] : [focus.index, index];
      const words = numberText(mean(weights, header.shape, active, query, key));
      const x = right ? measures.number - 4 : measures.width - measures.number + 4;
      items.push({ ...base, text: words, x, room: measures.number, size: 12, align: right ? "right" : "left" });
    });
  }
  return items;
}

function shifted(item, right, down) {
  const moved = { ...item };
  for (const name of ["x", "x0", "x1"]) if (name in moved) moved[name] += right;
  for (const name of ["y", "y0", "y1"]) if (name in moved) moved[name] += down;
  return moved;
}
