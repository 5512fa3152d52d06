// A bitext as a picture file: what it is of, both sentences, the lines, and what they say.

import { notesOf, rulerOf, savePicture, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { sceneOf } from "./lines.js";
import { legend, spoken } from "./sentences.js";

/**
 * Let the user keep what is shown as a PNG.
 * @param {import("./bitext.js").View} view
 */
export function saveBitext(view) {
  const { header, theme, sheet, focus, boxes } = view;
  const [ruler, width] = [rulerOf(), sheet.clientWidth];
  const items = sceneOf(view);
  for (const side of /** @type {const} */ (["query", "key"])) {
    header[side].texts.forEach((text, index) => {
      const { left, top, width: wide, height } = boxes[side][index];
      const bold = focus?.side === side && focus.index === index;
      items.push({ kind: "text", text, x: left + wide / 2, y: top + height / 2, room: width, align: "center", colour: theme.text, size: 17, bold });
    });
  }
  const shown = { items, height: sheet.clientHeight + 18 };
  const said = notesOf(ruler, [focus ? spoken(view, focus) : legend(view)], width, theme);
  savePicture(header.file_name, theme, width, [titleOf(ruler, header.about, width, theme), shown, said]);
}
