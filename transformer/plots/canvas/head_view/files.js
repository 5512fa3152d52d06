// A head view as a file: the whole sheet with its labels, not only what is scrolled into view.

import { headColour } from "../shared/colours.js";
import { element, pen, save, savePng, sheetOf, wrapped } from "../shared/page.js";
import { titleOf } from "../shared/saved.js";
import { shownHeads } from "./choices.js";
import { mean, middle, ROW } from "./lines.js";
import { paintScene, shifted, svgOf } from "../shared/scene.js";
import { footer, numberText, readout } from "./sentences.js";

/** @typedef {import("./head_view.js").View} View */
/** @typedef {import("../shared/scene.js").Item} Item */

const PAD = 16;
const CHIP = 110; // room for a head in the legend
const LINE = 20;

/**
 * Let the user keep the view as a PNG or an SVG.
 * @param {View} view
 * @param {"png" | "svg"} kind
 */
export function saveHeadView(view, kind) {
  const { header, theme } = view;
  const { items, width, height } = pictureOf(view);
  if (kind === "svg") {
    const text = svgOf(items, width, height, theme.font);
    save(new Blob([text], { type: "image/svg+xml" }), `${header.file_name}.svg`);
    return;
  }
  const [canvas, context] = sheetOf(width, height);
  paintScene(context, items, theme.font);
  savePng(canvas, header.file_name);
}

/** @param {View} view */
function pictureOf(view) {
  const { header, measures, theme } = view;
  const active = shownHeads(view.choices);
  const inner = measures.width;
  /**
   * @param {string} words
   * @param {number} x
   * @param {number} y
   * @param {number} room
   * @param {Partial<import("../shared/scene.js").Words>} more
   * @returns {import("../shared/scene.js").Words}
   */
  const text = (words, x, y, room, more = {}) =>
    ({ kind: "text", text: words, x: x + PAD, y, room, align: "left", colour: theme.text, ...more });
  /** @type {Item[]} */
  const items = [];
  const measure = pen(element("canvas"));
  const title = titleOf(measure, header.about, inner, theme.font);
  for (const { text: words, x, y, size, bold } of title.lines) items.push(text(words, x, PAD + y, inner, { size, bold }));
  const chips = PAD + title.height;
  const across = Math.max(1, Math.floor(inner / CHIP));
  active.forEach((head, order) => {
    const [x, y] = [(order % across) * CHIP, chips + 8 + Math.floor(order / across) * LINE];
    items.push({ kind: "box", x: x + PAD, y: y - 6, width: 12, height: 12, colour: headColour(head, theme, active.length) });
    items.push(text(header.heads[head], x + 18, y, CHIP - 24));
  });
  const titles = chips + Math.ceil(active.length / across) * LINE + 14;
  measure.font = `600 13px ${theme.font}`;
  const keyRoom = Math.min(measure.measureText(header.key_title).width + 4, inner / 2 - 8);
  items.push(text(header.query_title, 0, titles, inner - keyRoom - 16, { bold: true }));
  items.push(text(header.key_title, inner, titles, keyRoom, { bold: true, align: "right" }));
  const top = titles + 16;
  for (const item of sheetItems(view, active)) items.push(shifted(item, PAD, top));
  let y = top + Math.max(header.shape[1], header.shape[2]) * ROW + 20;
  const said = view.choices.pair ? [readout(view, active), footer(view, active)] : [footer(view, active)];
  measure.font = `12px ${theme.font}`;
  for (const line of said.flatMap((words) => wrapped(measure, words, inner))) {
    items.push(text(line, 0, y, inner, { size: 12 }));
    y += 17;
  }
  const [width, height] = [inner + 2 * PAD, y + PAD];
  /** @type {Item} */
  const paper = { kind: "box", x: 0, y: 0, width, height, colour: theme.background };
  return { items: [paper, ...items], width, height };
}

/**
 * Lines and bars as on the screen, and the tokens, which on the screen are elements.
 * @param {View} view
 * @param {number[]} active
 */
function sheetItems(view, active) {
  const { header, measures, focus, theme, weights } = view;
  const items = view.scene(active);
  for (const side of /** @type {const} */ (["query", "key"])) {
    const right = side === "query";
    /** @type {Pick<import("../shared/scene.js").Words, "kind" | "align" | "colour">} */
    const base = { kind: "text", colour: theme.text, align: right ? "right" : "left" };
    const edge = right ? measures.left - 8 : measures.right + 8;
    const room = measures.column - measures.number - measures.bars - 8;
    header[`${side}_labels`].forEach((label, index) => {
      const y = middle(index + (right ? measures.beside : 0));
      const bold = focus?.side === side && focus.index === index;
      items.push({ ...base, y, text: label, x: edge, room, bold });
      if (!focus || focus.side === side || !active.length) return;
      const [query, key] = right ? [index, focus.index] : [focus.index, index];
      const words = numberText(mean(weights, header.shape, active, query, key), header.words);
      const x = right ? measures.number - 4 : measures.width - measures.number + 4;
      items.push({ ...base, y, text: words, x, room: measures.number, size: 12 });
    });
  }
  return items;
}
