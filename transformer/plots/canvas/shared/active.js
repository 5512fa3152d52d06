// What a screen reader finds inside a canvas that the keyboard walks: the cell where the keyboard stands, in words.

import { element } from "./page.js";

let made = 0;

/**
 * Make `text` the active descendant of a canvas, as an element of this role inside elements of the roles `around`.
 * A new element each time that anything changes, so that every step is spoken; none while all stays the same.
 * @param {HTMLCanvasElement} canvas
 * @param {string} role
 * @param {string} text
 * @param {Record<string, string | number>} attributes of the active element
 * @param {[role: string, attributes: Record<string, string | number>] | null} around
 */
export function activate(canvas, role, text, attributes, around = null) {
  const now = JSON.stringify([text, attributes]);
  if (canvas.dataset.active === now) return;
  canvas.dataset.active = now;
  const active = element("div", "", text, { role, id: `active-${++made}`, ...attributes });
  const outer = around ? element("div", "", null, { role: around[0], ...around[1] }) : active;
  if (outer !== active) outer.append(active);
  canvas.replaceChildren(outer);
  canvas.setAttribute("aria-activedescendant", active.id);
}
