// One head enlarged, beside its thumbnail.

import { element } from "../shared/page.js";
import { paint } from "./thumbnails.js";

const SIDE = 232; // CSS pixels along the longer side

/**
 * Show a head beside its cell, inside the component's width and the window's height.
 * @param {import("./all_heads.js").View} view
 * @param {HTMLElement} preview
 * @param {number} layer
 * @param {number} head
 */
export function showPreview(view, preview, layer, head) {
  const { header, weights, look, root } = view;
  const [, heads, queries, keys] = header.shape;
  const canvas = element("canvas");
  paint(canvas, weights, header.shape, layer * heads + head, look, SIDE * (window.devicePixelRatio || 1));
  const larger = Math.max(queries, keys);
  canvas.style.width = `${Math.max((SIDE * keys) / larger, 48)}px`;
  canvas.style.height = `${Math.max((SIDE * queries) / larger, 48)}px`;
  const axes = element("span", "axes", `${header.query_axis} ↓  ${header.key_axis} →`);
  const role = element("span", "axes", header.roles?.[layer][head]);
  preview.replaceChildren(element("strong", "", `${header.rows[layer]}, ${header.columns[head]}`), role, canvas, axes);
  preview.hidden = false;
  const [box, cell] = [root.getBoundingClientRect(), view.cells[layer][head].getBoundingClientRect()];
  const right = cell.right - box.left + 8;
  const left = cell.left - box.left - preview.offsetWidth - 8;
  const roomRight = right + preview.offsetWidth <= box.width;
  const beside = roomRight || left >= 0;
  const lowest = window.innerHeight - preview.offsetHeight - 8 - box.top;
  const x = roomRight ? right : beside ? left : box.width - preview.offsetWidth;
  const y = beside ? Math.max(Math.min(cell.top - box.top, lowest), -box.top) : cell.bottom - box.top + 8;
  preview.style.left = `${Math.max(x, 0)}px`;
  preview.style.top = `${y}px`;
}
