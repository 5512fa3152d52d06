// A grid of cells on a canvas: pointer and keyboard walk it, and a screen reader finds the cell where the keyboard is.

import { element } from "./page.js";

/**
 * Where a key leads from a cell, staying inside; undefined for any other key. With Ctrl, or in one column, Home and End
 * lead to the first and the last cell of all; arrows go `down` and `across` so many cells.
 * @param {{ key: string, ctrlKey: boolean }} event
 * @param {[number, number]} current
 * @param {number} rows
 * @param {number} columns
 * @returns {[number, number] | undefined}
 */
export function moved({ key, ctrlKey }, [row, column], rows, columns, down = 1, across = 1) {
  const all = ctrlKey || columns === 1;
  /** @type {Record<string, [number, number]>} */
  const targets = {
    ArrowUp: [Math.max(row - down, 0), column],
    ArrowDown: [Math.min(row + down, rows - 1), column],
    ArrowLeft: [row, Math.max(column - across, 0)],
    ArrowRight: [row, Math.min(column + across, columns - 1)],
    Home: [all ? 0 : row, 0],
    End: [all ? rows - 1 : row, columns - 1],
  };
  return targets[key];
}

/** @typedef {[row: number, column: number]} Cell */

/**
 * What walks a grid: `at` finds the cell at an event, `current` is where the keyboard stands; then what happens where
 * the pointer is over another cell or over none, where the keyboard has led to one, and where one is clicked or
 * entered.
 * @typedef {object} Walked
 * @property {(event: MouseEvent) => Cell | null} at
 * @property {() => [rows: number, columns: number]} size
 * @property {() => Cell} current
 * @property {(cell: Cell | null) => void} point
 * @property {(cell: Cell) => void} go
 * @property {(cell: Cell) => void} pick
 * @property {() => void} [escape]
 */

/**
 * Let pointer and keyboard walk the cells of a canvas, or of any grid.
 * @param {HTMLElement} canvas
 * @param {Walked} act
 */
export function walk(canvas, { at, size, current, point, go, pick, escape }) {
  canvas.onpointermove = (event) => point(at(event));
  canvas.onpointerleave = () => point(null);
  canvas.onclick = (event) => {
    const cell = at(event);
    if (cell) pick(cell);
  };
  canvas.onkeydown = (event) => {
    const to = moved(event, current(), ...size());
    if (to) go(to);
    else if (event.key === "Enter" || event.key === " ") pick(current());
    else if (event.key === "Escape" && escape) escape();
    else return;
    event.preventDefault();
  };
}

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
