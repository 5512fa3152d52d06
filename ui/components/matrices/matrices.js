// Matrices as grids of numbers. Pick a cell: what it came from and what it goes to lights up in all of them.

import { bit, bytesOf } from "../../../transformer/plots/canvas/shared/blob.js";
import { themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { activate, walk } from "../../../transformer/plots/canvas/shared/grid.js";
import { button, element, enlarged, focusedBeside, say } from "../../../transformer/plots/canvas/shared/page.js";
import { rulerOf, savePicture, showLegend, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { drawOn, shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { fill, written } from "../../../transformer/plots/canvas/shared/words.js";
import {
  cellAt, geometry, legendFor, paints, sceneOf, sizeOf, spoken, symbolNodes, symbolOf, zoomFor,
} from "./scene.js";

/** Of a picture. */
const SAVED = { gap: 12, least: 420, family: '"Latin Modern Math", "STIX Two Math", Cambria, Georgia, serif' };

/** @typedef {import("./scene.js").Matrix} Matrix */

const LIT = /** @type {const} */ (
  { sources: "sources", targets: "targets", furtherSources: "further", furtherTargets: "further" }
);
const RELATIONS = /** @type {(keyof typeof LIT)[]} */ (Object.keys(LIT));

/**
 * What Python sends; `hint` says what can be done with the cells, `outline` what an outlined cell is; both may be "".
 * @typedef {object} Header
 * @property {Matrix[]} matrices
 * @property {string} hint
 * @property {string} outline
 * @property {string} file_name
 * @property {boolean} elided whether large matrices leave out their middle
 * @property {import("../../../transformer/plots/canvas/shared/saved.js").About} about what a saved picture says
 * @property {Record<"save_png" | "picked" | "example" | "sources" | "targets" | "further" | "undefined" | "scale" |
 *   "weights" | "visible" | "hidden", string>} words
 */

/** @typedef {ReturnType<typeof build>} Box One matrix's elements, and what is drawn in them. */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame &
 *   Record<"save" | "hint" | "legend" | "sheet" | "reading", HTMLElement> & {
 *   header: Header,
 *   arrays: Record<string, any>,
 *   theme: import("../../../transformer/plots/canvas/shared/colours.js").Theme,
 *   paints: import("./scene.js").Paints,
 *   boxes: Map<string, Box>,
 *   selected: [string, number, number] | null,
 *   example: boolean,
 *   zoom: number,
 *   lit: Partial<Record<keyof typeof LIT, Record<string, Uint8Array>>>,
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
  const start = {
    boxes: new Map(), selected: null, example: false, zoom: 1, lit: {}, save, hint, legend, sheet, reading,
  };
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
 * @param {Partial<Record<keyof typeof LIT, Record<string, string>>>} lit
 * @returns {View["lit"]}
 */
function unpacked(lit) {
  const unpack = (/** @type {Record<string, string>} */ found) =>
    Object.fromEntries(Object.entries(found).map(([name, text]) => [name, bytesOf(text)]));
  return Object.fromEntries(Object.entries(lit).map(([relation, found]) => [relation, unpack(found)]));
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
  const kept = view.header.elided ? [] : null;
  const shapes = view.header.matrices.map((matrix) => geometry(canvas, matrix, view.theme, 1, kept));
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
    relation: /** @type {import("./scene.js").Drawn["relation"]} */ (null),
    fades: false,
    focused: /** @type {[number, number] | null} */ (null),
    current: /** @type {[number, number]} */ ([0, 0]),
  };
  const scroller = element("div", "scroller");
  scroller.append(canvas);
  box.root.append(box.caption, scroller);
  const go = (/** @type {[number, number] | null} */ cell) => {
    if (cell) box.current = cell;
    read(view, box, cell);
    view.draw();
  };
  walk(canvas, {
    at: ({ offsetX, offsetY }) => cellAt(box, offsetX, offsetY),
    size: () => [box.matrix.rows.length, box.matrix.columns.length],
    current: () => box.current,
    point: (cell) => read(view, box, cell),
    go,
    pick: (cell) => pick(view, box, cell),
    escape: () => view.selected && !view.example && view.send("picked", { none: true }),
  });
  canvas.onfocus = () => go(box.current);
  canvas.onblur = () => go(null);
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
    const found = RELATIONS.find((relation) => bit(lit[relation]?.[matrix.name], index));
    return index === picked ? "picked" : found && LIT[found];
  });
  box.fades = !view.example;
  box.focused = focusedBeside(view.root) === box.canvas ? box.current : null;
  drawOn(box.canvas, box.shape.wide, box.shape.tall, sceneOf(box, theme, view.paints), theme.font);
  for (const relation of RELATIONS) {
    const bits = lit[relation]?.[matrix.name];
    box.canvas.dataset[relation] = String(box.values.reduce((count, _, index) => count + Number(bit(bits, index)), 0));
  }
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
  const lit = named && words[named];
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

/**
 * Let the user keep every matrix with its name, laid out as on the page.
 * @param {View} view
 */
function saveMatrices(view) {
  const { boxes, sheet, theme, header } = view;
  const [ruler, page] = [rulerOf(), sheet.getBoundingClientRect()];
  const found = [...boxes.values()].map((box) => (
    { box, caption: box.caption.getBoundingClientRect(), corner: box.root.getBoundingClientRect() }
  ));
  const ends = found.map(({ box, corner }) => corner.left - page.left + Math.max(box.shape.wide, corner.width));
  const width = Math.max(...ends, SAVED.least);
  const bottoms = found.map(({ box, caption, corner }) => corner.top - page.top + caption.height + 4 + box.shape.tall);
  const items = found.flatMap(({ box, caption, corner }) => {
    const [x, y] = [corner.left - page.left, corner.top - page.top];
    const base = /** @type {const} */ (
      { kind: "text", text: "", x, y: y + 12, room: Infinity, align: "left", colour: theme.text }
    );
    const look = { ...base, family: SAVED.family, italic: true, size: 17 };
    const symbol = symbolOf(ruler, box.matrix.symbol, look, theme.font);
    const corners = found.map((other) => other.corner);
    const beside = corners.filter(({ left, top }) => left > corner.left && top === corner.top);
    const edge = Math.min(width, ...beside.map(({ left }) => left - page.left - SAVED.gap));
    const text = [sizeOf(box), box.matrix.title].filter(Boolean).join("  ");
    const name = { ...base, text, x: symbol.end + 8, room: edge - symbol.end - 8 };
    const cells = sceneOf({ ...box, focused: null }, theme, view.paints);
    return [...symbol.items, name, ...cells.map((item) => shifted(item, x, y + caption.height + 4))];
  });
  const formulas = titleOf(ruler, { title: "", lines: header.about.formulas ?? [] }, width, theme);
  const symbols = formulas.items.flatMap((item) =>
    (item.kind === "text" ? symbolOf(ruler, item.text, { size: 12, ...item }, theme.font).items : []));
  const drawn = [{ items: symbols, height: formulas.height }, { items, height: Math.max(...bottoms, 0) + SAVED.gap }];
  savePicture(header.file_name, theme, width, header.about, drawn, { legend: legendFor(view) });
}
