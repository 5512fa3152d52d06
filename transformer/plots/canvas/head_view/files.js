// A head view as a file: the whole sheet with its labels, not only what is scrolled into view.

import { headColour } from "../shared/colours.js";
import { notesOf, rulerOf, savePicture, titleOf } from "../shared/saved.js";
import { shownHeads } from "./choices.js";
import { mean, middle, ROW } from "../shared/lines.js";
import { footer, numberText, readout } from "./sentences.js";

/** @typedef {import("./head_view.js").View} View */
/** @typedef {import("../shared/scene.js").Item} Item */

const CHIP = 110; // room for a head in the legend
const LINE = 20;

/**
 * Let the user keep the view as a PNG or an SVG.
 * @param {View} view
 * @param {"png" | "svg"} kind
 */
export function saveHeadView(view, kind) {
  const { header, theme, measures: { width } } = view;
  const active = shownHeads(view.choices);
  const ruler = rulerOf();
  /** @type {Pick<import("../shared/scene.js").Words, "kind" | "align" | "colour">} */
  const base = { kind: "text", align: "left", colour: theme.text };
  const across = Math.max(1, Math.floor(width / CHIP));
  const chips = active.flatMap((head, order) => {
    const [x, y] = [(order % across) * CHIP, 8 + Math.floor(order / across) * LINE];
    /** @type {Item[]} */
    const chip = [
      { kind: "box", x, y: y - 6, width: 12, height: 12, colour: headColour(head, theme, active.length) },
      { ...base, text: header.heads[head], x: x + 18, y, room: CHIP - 24 },
    ];
    return chip;
  });
  ruler.font = `600 13px ${theme.font}`;
  const keyRoom = Math.min(ruler.measureText(header.key_title).width + 4, width / 2 - 8);
  /** @type {Item[]} */
  const sides = [
    { ...base, text: header.query_title, x: 0, y: 14, room: width - keyRoom - 16, bold: true },
    { ...base, text: header.key_title, x: width, y: 14, room: keyRoom, bold: true, align: "right" },
  ];
  const said = view.choices.pair ? [readout(view, active), footer(view, active)] : [footer(view, active)];
  const blocks = [
    titleOf(ruler, header.about, width, theme),
    { items: chips, height: Math.ceil(active.length / across) * LINE },
    { items: sides, height: 30 },
    { items: sheetItems(view, active), height: Math.max(header.shape[1], header.shape[2]) * ROW + 12 },
    notesOf(ruler, said, width, theme),
  ];
  savePicture(header.file_name, theme, width, blocks, kind);
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
