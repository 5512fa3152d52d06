// Matrices as grids of numbers. Pick a cell: what it came from and what it goes to lights up in all of them.

import { activate } from "../../../transformer/plots/canvas/shared/active.js";
import { bit } from "../../../transformer/plots/canvas/shared/blob.js";
import { themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { moved } from "../../../transformer/plots/canvas/shared/grid.js";
import { button, element, enlarged, focusedBeside, resized, say, screenRatio } from "../../../transformer/plots/canvas/shared/page.js";
import { showLegend } from "../../../transformer/plots/canvas/shared/saved.js";
import { paintScene } from "../../../transformer/plots/canvas/shared/scene.js";
import { fill, written } from "../../../transformer/plots/canvas/shared/words.js";
import { cellAt, geometry, paints, sceneOf, zoomFor } from "./canvas.js";
import { saveMatrices } from "./files.js";
import { legendFor } from "./legend.js";
import { sizeOf, spoken, symbolNodes } from "./symbols.js";

/** @typedef {import("./canvas.js").Matrix} Matrix */
/** @typedef {import("./canvas.js").Relation} Relation */

/** @type {Exclude<Relation, "picked">[]} */
const RELATIONS = ["sources", "targets", "furtherSources", "furtherTargets"];

/**
 * What Python sends; `hint` says what can be done with the cells, `outline` what an outlined cell is; both may be "".
 * @typedef {object} Header
 * @property {Matrix[]} matrices
 * @property {string} hint
 * @property {string} outline
 * @property {string} file_name
 * @property {boolean} elided whether large matrices leave out their middle
 * @property {import("../../../transformer/plots/canvas/shared/saved.js").About} about what a saved picture says of itself
 * @property {Record<"save_png" | "picked" | "example" | "sources" | "targets" | "further" | "undefined" | "scale" | "weights" | "visible" | "hidden", string>} words
 */

/** @typedef {ReturnType<typeof build>} Box One matrix's elements, and what is drawn in them. */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & {
 *   header: Header,
 *   arrays: Record<string, any>,
 *   theme: import("../../../transformer/plots/canvas/shared/colours.js").Theme,
 *   paints: import("./canvas.js").Paints,
 *   boxes: Map<string, Box>,
 *   selected: [string, number, number] | null,
 *   example: boolean,
 *   zoom: number,
 *   lit: Partial<Record<Relation, Record<string, Uint8Array>>>,
 *   save: HTMLElement,
 *   hint: HTMLElement,
 *   legend: HTMLElement,
 *   sheet: HTMLElement,
 *   reading: HTMLElement,
 * }} View
 * `lit` has, for each relation and matrix, a bit a cell; an `example` is marked though nobody picked it.
 */

export default component("matrices", (frame) => {
  const save = button("", () => saveMatrices(view));
  const hint = element("span", "hint");
  const legend = element("span");
  const bar = element("div", "legend");
  bar.append(save, hint, legend);
  const [sheet, reading] = [element("div", "sheet"), element("div", "reading")];
  frame.root.append(reading, sheet, bar);
  /** @type {Partial<View>} */
  const start = { boxes: new Map(), selected: null, example: false, zoom: 1, lit: {}, save, hint, legend, sheet, reading };
  const view = /** @type {View} */ (Object.assign(frame, start));
  return {
    receive: (received) => Object.assign(view, received),
    adopt: (options) => {
      view.selected = options.selected;
      view.example = options.example;
      view.lit = unpacked(options.lit);
    },
    draw: () => draw(view),
  };
});

/**
 * Per relation and matrix, the bits that Python packed.
 * @param {Partial<Record<Relation, Record<string, string>>>} lit
 * @returns {View["lit"]}
 */
function unpacked(lit) {
  const bytes = (/** @type {string} */ text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return Object.fromEntries(
    Object.entries(lit).map(([relation, found]) => [
      relation,
      Object.fromEntries(Object.entries(found).map(([name, text]) => [name, bytes(text)])),
    ]),
  );
}

/** @param {View} view */
function draw(view) {
  const { header, sheet, boxes } = view;
  view.theme = themeOf(view.root);
  view.paints = paints(view.theme);
  const names = header.matrices.map((matrix) => matrix.name);
  for (const [name, box] of boxes) {
    if (names.includes(name)) continue;
    box.root.remove();
    boxes.delete(name);
  }
  view.zoom = zoomOf(view);
  header.matrices.forEach((matrix, order) => {
    const box = boxes.get(matrix.name) ?? build(view, matrix);
    boxes.set(matrix.name, box);
    if (sheet.children[order] !== box.root) sheet.insertBefore(box.root, sheet.children[order] ?? null);
    show(view, box, matrix);
  });
  say(view.save, header.words.save_png);
  say(view.hint, header.hint);
  showLegend(view.legend, legendFor(view), view.root.clientWidth, view.theme);
}

/**
 * How large the matrices are drawn in this window.
 * @param {View} view
 */
function zoomOf(view) {
  const canvas = element("canvas");
  const shapes = view.header.matrices.map((matrix) => geometry(canvas, matrix, view.theme, 1, view.header.elided ? [] : null));
  return zoomFor(shapes, view.root.clientWidth, window.innerHeight / enlarged());
}

/**
 * The elements of one matrix: its name, its shape, its canvas.
 * @param {View} view
 * @param {Matrix} matrix
 */
function build(view, matrix) {
  const canvas = element("canvas", "", null, { tabindex: "0", role: "grid", "data-matrix": matrix.name });
  const box = {
    root: element("figure", "matrix"),
    caption: element("figcaption"),
    canvas,
    matrix,
    values: new Float32Array(),
    hidden: /** @type {Uint8Array | undefined} */ (undefined),
    outlined: /** @type {Uint8Array | undefined} */ (undefined),
    shape: geometry(canvas, matrix, view.theme),
    relation: /** @type {import("./canvas.js").Drawn["relation"]} */ (null),
    fades: false,
    focused: /** @type {[number, number] | null} */ (null),
    current: /** @type {[number, number]} */ ([0, 0]),
  };
  const scroller = element("div", "scroller");
  scroller.append(canvas);
  box.root.append(box.caption, scroller);
  const at = (/** @type {MouseEvent} */ event) => cellAt(box, event.offsetX, event.offsetY);
  canvas.onclick = (event) => {
    const cell = at(event);
    if (cell) pick(view, box, cell);
  };
  canvas.onpointermove = (event) => read(view, box, at(event));
  canvas.onpointerleave = () => read(view, box, null);
  canvas.onfocus = () => {
    read(view, box, box.current);
    view.draw();
  };
  canvas.onblur = () => {
    read(view, box, null);
    view.draw();
  };
  canvas.onkeydown = (event) => {
    const target = moved(event, box.current, box.matrix.rows.length, box.matrix.columns.length);
    if (event.key === "Enter" || event.key === " ") pick(view, box, box.current);
    else if (event.key === "Escape" && view.selected && !view.example) view.send("picked", { none: true });
    else if (!target) return;
    event.preventDefault();
    if (!target) return;
    box.current = target;
    read(view, box, target);
    view.draw();
  };
  return box;
}

/**
 * Write the texts and draw the cells of one matrix.
 * @param {View} view
 * @param {Box} box
 * @param {Matrix} matrix
 */
function show(view, box, matrix) {
  const { arrays, lit, selected, theme } = view;
  const [rows, columns] = [matrix.rows.length, matrix.columns.length];
  const [hidden, outlined] = [arrays[`${matrix.name}.hidden`], arrays[`${matrix.name}.outlined`]];
  Object.assign(box, { matrix, values: arrays[matrix.name], hidden, outlined });
  box.current = [Math.min(box.current[0], rows - 1), Math.min(box.current[1], columns - 1)];
  const kept = /** @type {[number, number][]} */ ([box.current]);
  if (selected?.[0] === matrix.name) kept.push([selected[1], selected[2]]);
  box.shape = geometry(box.canvas, matrix, theme, view.zoom, view.header.elided ? kept : null);
  const name = element("b", "symbol");
  name.append(...symbolNodes(matrix.symbol));
  box.caption.replaceChildren(name, element("span", "size", sizeOf(box)));
  if (matrix.title) box.caption.append(element("span", "title", matrix.title));
  const picked = selected?.[0] === matrix.name ? selected[1] * columns + selected[2] : -1;
  box.relation = selected && ((index) => {
    return index === picked ? "picked" : RELATIONS.find((relation) => bit(lit[relation]?.[matrix.name], index));
  });
  box.fades = !view.example;
  box.focused = focusedBeside(view.root) === box.canvas ? box.current : null;
  const context = resized(box.canvas, box.shape.wide, box.shape.tall, screenRatio());
  Object.assign(box.canvas.style, { width: `${box.shape.wide}px`, height: `${box.shape.tall}px` });
  paintScene(context, sceneOf(box, theme, view.paints), theme.font);
  for (const relation of RELATIONS) {
    const bits = lit[relation]?.[matrix.name];
    box.canvas.dataset[relation] = String(box.values.reduce((count, _, index) => count + Number(bit(bits, index)), 0));
  }
  const ring = box.values.reduce((count, _, index) => count + Number(bit(outlined, index)), 0);
  box.canvas.dataset.outlined = String(ring);
  box.canvas.dataset.picked = picked < 0 || view.example ? "" : `${Math.floor(picked / columns)}-${picked % columns}`;
  const { left, top, width, height } = box.shape;
  Object.assign(box.canvas.dataset, { left, top, cellWidth: width, cellHeight: height });
  expose(view, box);
}

/**
 * Tell screen readers of the matrix, and of the cell where the keyboard stands.
 * @param {View} view
 * @param {Box} box
 */
function expose(view, box) {
  const { canvas, matrix, current } = box;
  const [rows, columns] = [matrix.rows.length, matrix.columns.length];
  const [row, column] = current;
  const name = [spoken(matrix.symbol), matrix.title].filter(Boolean).join(" ");
  canvas.setAttribute("aria-label", [`${name}, ${rows} × ${columns}`, view.header.hint].filter(Boolean).join(". "));
  canvas.setAttribute("aria-rowcount", String(rows));
  canvas.setAttribute("aria-colcount", String(columns));
  const relation = box.relation?.(row * columns + column);
  const { words } = view.header;
  const named = relation === "picked" && view.example ? "example" : relation;
  const lit = named && (named === "furtherSources" || named === "furtherTargets" ? words.further : words[named]);
  const text = [valueText(view, box, row, column), lit, note(view, matrix, row, column)].filter(Boolean).join(" · ");
  const attributes = { "aria-colindex": column + 1, "aria-selected": String(relation === "picked" && !view.example) };
  activate(canvas, "gridcell", text, { ...attributes }, ["row", { "aria-rowindex": row + 1 }]);
}

/**
 * @param {View} view
 * @param {Box} box
 * @param {[number, number]} cell
 */
function pick(view, box, [row, column]) {
  const { name } = box.matrix;
  box.current = [row, column];
  read(view, box, box.current); // a click gives the focus first, which reads the cell where the keyboard stood
  const same = !view.example && view.selected?.[0] === name && view.selected[1] === row && view.selected[2] === column;
  view.send("picked", same ? { none: true } : { matrix: name, row, column });
  view.draw();
}

/**
 * A cell's labels and its number.
 * @param {View} view
 * @param {Box} box
 * @param {number} row
 * @param {number} column
 */
function valueText(view, { matrix, values }, row, column) {
  const place = `[${matrix.rows[row]}, ${matrix.columns[column]}]`;
  const number = values[row * matrix.columns.length + column];
  if (matrix.asked) return number > 0 ? `${place} ✓` : place;
  const value = written(number, 4, view.header.words.undefined);
  return `${place} = ${value}`;
}

/**
 * What Python wants said about a cell, with its numbers and labels put in.
 * @param {View} view
 * @param {Matrix} matrix
 * @param {number} row
 * @param {number} column
 */
function note({ arrays }, matrix, row, column) {
  const codes = arrays[`${matrix.name}.codes`];
  if (!codes) return "";
  const labels = { row_label: matrix.rows[row], column_label: matrix.columns[column] };
  const sentence = matrix.sentences[codes[row * matrix.columns.length + column]];
  return fill(sentence, { row: row + 1, column: column + 1, ...labels });
}

/**
 * Say the cell under the pointer (or reached by keys) in words.
 * @param {View} view
 * @param {Box} box
 * @param {[number, number] | null} cell
 */
function read(view, box, cell) {
  box.canvas.style.cursor = cell && view.hears("picked") ? "pointer" : "default";
  if (!cell) {
    view.reading.textContent = "";
    return;
  }
  const more = note(view, box.matrix, ...cell);
  const text = ` ${valueText(view, box, ...cell)}${more ? ` · ${more}` : ""}`;
  view.reading.replaceChildren(...symbolNodes(box.matrix.symbol), text);
}
