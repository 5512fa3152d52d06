// Matrices as grids of numbers. Pick a cell: what it came from and what it goes to lights up in all of them.

import { decode, bit } from "./blob.js";
import { themeOf } from "./colours.js";
import { button, element, onOptions, onceAFrame, pixelRatio, savePng, shortened, timed } from "./page.js";
import { drawMatrix, geometry, paints, written } from "./matrix_canvas.js";

const RELATIONS = ["sources", "targets", "furtherSources", "furtherTargets"];
const pictures = new WeakMap(); // parentElement -> instance; a parent outlives many runs

export default function ({ data, parentElement, setTriggerValue }) {
  let picture = pictures.get(parentElement);
  if (!picture) {
    picture = mount(parentElement);
    pictures.set(parentElement, picture);
  }
  const run = ++picture.run;
  picture.emit = (value) => setTriggerValue("picked", value);
  picture.receive(decode(data));
  return () => {
    if (picture.run !== run) return; // a newer run uses this instance: Streamlit ends late runs after newer ones
    picture.forget();
    picture.root.remove();
    pictures.delete(parentElement);
  };
}

function mount(parent) {
  const root = element("div", "atlas matrices");
  const picture = { root, run: 0, boxes: new Map(), selected: null, lit: {}, forget: () => {} };
  picture.legend = element("div", "legend");
  picture.sheet = element("div", "sheet");
  picture.reading = element("div", "reading", "", { "aria-live": "polite" });
  root.append(picture.legend, picture.sheet, picture.reading);
  parent.appendChild(root);
  picture.draw = onceAFrame(() => timed(root, () => draw(picture)));
  picture.receive = (received) => {
    Object.assign(picture, received);
    if (picture.instance !== received.header.instance) {
      picture.forget();
      picture.instance = received.header.instance;
      picture.forget = onOptions(picture.instance, (options) => {
        picture.selected = options.selected;
        picture.lit = unpacked(options.lit);
        picture.draw();
      });
    }
    picture.draw();
  };
  return picture;
}

/** Per relation and matrix, the bits that Python packed. */
function unpacked(lit) {
  const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return Object.fromEntries(
    RELATIONS.map((relation) => [
      relation,
      new Map(Object.entries(lit[relation] ?? {}).map(([name, text]) => [name, bytes(text)])),
    ]),
  );
}

function draw(picture) {
  const { header, sheet, boxes } = picture;
  picture.theme = themeOf(picture.root);
  picture.paints = paints(picture.theme);
  const names = header.matrices.map((matrix) => matrix.name);
  for (const [name, box] of boxes) {
    if (names.includes(name)) continue;
    box.root.remove();
    boxes.delete(name);
  }
  header.matrices.forEach((matrix, place) => {
    if (!boxes.has(matrix.name)) boxes.set(matrix.name, build(picture, matrix.name));
    const box = boxes.get(matrix.name);
    if (sheet.children[place] !== box.root) sheet.insertBefore(box.root, sheet.children[place] ?? null);
    show(picture, box, matrix);
  });
  explain(picture);
}

/** The elements of one matrix: its name, its shape, its canvas. */
function build(picture, name) {
  const box = { name, root: element("figure", "matrix"), current: [0, 0] };
  box.caption = element("figcaption");
  box.canvas = element("canvas", "", null, { tabindex: "0", role: "application", "data-matrix": name });
  const scroller = element("div", "scroller");
  scroller.append(box.canvas);
  box.root.append(box.caption, scroller);
  const at = (event) => cellAt(box, event.offsetX, event.offsetY);
  box.canvas.onclick = (event) => {
    const cell = at(event);
    if (cell) pick(picture, box, cell);
  };
  box.canvas.onpointermove = (event) => read(picture, box, at(event));
  box.canvas.onpointerleave = () => read(picture, box, null);
  box.canvas.onfocus = () => picture.draw();
  box.canvas.onblur = () => picture.draw();
  box.canvas.onkeydown = (event) => {
    const [row, column] = box.current;
    const [rows, columns] = [box.matrix.rows.length, box.matrix.columns.length];
    const moved = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, columns - 1],
    }[event.key];
    if (event.key === "Enter" || event.key === " ") pick(picture, box, box.current);
    else if (event.key === "Escape" && picture.selected) picture.emit({ none: true });
    else if (!moved) return;
    event.preventDefault();
    if (!moved) return;
    box.current = [Math.min(Math.max(moved[0], 0), rows - 1), Math.min(Math.max(moved[1], 0), columns - 1)];
    read(picture, box, box.current);
    picture.draw();
  };
  return box;
}

/** Write the texts and draw the cells of one matrix. */
function show(picture, box, matrix) {
  const values = picture.arrays[matrix.name];
  const [rows, columns] = [matrix.rows.length, matrix.columns.length];
  Object.assign(box, { matrix, values, hidden: picture.arrays[`${matrix.name}.hidden`] });
  box.current = [Math.min(box.current[0], rows - 1), Math.min(box.current[1], columns - 1)];
  box.shape = geometry(box.canvas, matrix, picture.theme);
  const name = element("b", "symbol");
  name.append(...symbol(matrix.symbol));
  box.caption.replaceChildren(name, element("span", "size", `${rows} × ${columns}`));
  if (matrix.title) box.caption.append(element("span", "title", matrix.title));
  const lit = RELATIONS.map((relation) => picture.lit[relation]?.get(matrix.name));
  const picked = picture.selected?.[0] === matrix.name ? picture.selected.slice(1) : null;
  const relation = (index) => {
    if (picked && index === picked[0] * columns + picked[1]) return "picked";
    return RELATIONS.find((_, i) => bit(lit[i], index));
  };
  const focused = box.canvas.getRootNode().activeElement === box.canvas ? box.current : null;
  drawMatrix(box, picture, relation, focused);
  const counts = RELATIONS.map((name, i) => {
    let count = 0;
    for (let index = 0; index < rows * columns; index++) count += bit(lit[i], index);
    return [name, count];
  });
  for (const [name, count] of counts) box.canvas.dataset[name] = count;
  box.canvas.dataset.picked = picked ? picked.join("-") : "";
  const { left, top, width, height } = box.shape;
  Object.assign(box.canvas.dataset, { left, top, cellWidth: width, cellHeight: height });
  box.canvas.setAttribute("aria-label", `${matrix.symbol} ${matrix.title}, ${rows} × ${columns}. ${picture.header.words.hint}`);
}

/** A symbol such as W^Q_0 as elements: what follows ^ is set higher, what follows _ lower. */
function symbol(text) {
  return text
    .split(/(?=[\^_])/)
    .map((part) => {
      if (!"^_".includes(part[0])) return document.createTextNode(part);
      const [, mark, raised, rest] = part.match(/^([\^_])(\w)(.*)$/s);
      const made = element("span");
      made.append(element(mark === "^" ? "sup" : "sub", "", raised), document.createTextNode(rest));
      return made;
    });
}

function explain(picture) {
  const { words } = picture.header;
  const swatch = (name, text) => {
    const made = element("span", "swatch");
    const patch = element("i", name);
    patch.style.borderColor = picture.paints[name];
    made.append(patch, element("span", "", text));
    return made;
  };
  const save = button(words.save, () => savePng(together(picture), "matrices"));
  picture.legend.replaceChildren(save, element("span", "hint", words.hint));
  if (!picture.selected) return;
  picture.legend.append(
    swatch("picked", words.picked),
    swatch("sources", words.sources),
    swatch("targets", words.targets),
    swatch("further", words.further),
  );
}

/** Every matrix with its name on one canvas, laid out as on the page. */
function together(picture) {
  const sheet = picture.sheet.getBoundingClientRect();
  const canvas = element("canvas");
  const ratio = pixelRatio(sheet.width, picture.sheet.scrollHeight);
  canvas.width = Math.round(sheet.width * ratio);
  canvas.height = Math.round(picture.sheet.scrollHeight * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = picture.theme.background;
  context.fillRect(0, 0, sheet.width, picture.sheet.scrollHeight);
  context.fillStyle = picture.theme.text;
  context.font = `14px ${picture.theme.font}`;
  context.textBaseline = "top";
  for (const box of picture.boxes.values()) {
    const [name, cells] = [box.caption.getBoundingClientRect(), box.canvas.getBoundingClientRect()];
    const text = `${box.matrix.symbol}   ${box.matrix.title}`;
    context.fillText(shortened(context, text, Math.max(name.width, 60)), name.left - sheet.left, name.top - sheet.top);
    context.drawImage(box.canvas, cells.left - sheet.left, cells.top - sheet.top, cells.width, cells.height);
  }
  return canvas;
}

function cellAt(box, x, y) {
  const { left, top, width, height } = box.shape;
  const [row, column] = [Math.floor((y - top) / height), Math.floor((x - left) / width)];
  const inside = row >= 0 && column >= 0 && row < box.matrix.rows.length && column < box.matrix.columns.length;
  return inside ? [row, column] : null;
}

function pick(picture, box, [row, column]) {
  box.current = [row, column];
  const same = picture.selected && picture.selected.join() === [box.name, row, column].join();
  picture.emit(same ? { none: true } : { matrix: box.name, row, column });
}

/** What Python wants said about a cell, with its numbers and labels put in. */
function note(picture, matrix, row, column) {
  const codes = picture.arrays[`${matrix.name}.codes`];
  if (!codes) return "";
  const blanks = { row: row + 1, column: column + 1, row_label: matrix.rows[row], column_label: matrix.columns[column] };
  const sentence = matrix.sentences[codes[row * matrix.columns.length + column]];
  return ` · ${sentence.replace(/\{(\w+)\}/g, (_, name) => blanks[name])}`;
}

/** Say the cell under the pointer (or reached by keys) in words. */
function read(picture, box, cell) {
  box.canvas.style.cursor = cell ? "pointer" : "default";
  if (!cell) {
    picture.reading.textContent = "";
    return;
  }
  const [row, column] = cell;
  const value = box.values[row * box.matrix.columns.length + column];
  picture.reading.replaceChildren(
    ...symbol(box.matrix.symbol),
    ` [${box.matrix.rows[row]}, ${box.matrix.columns[column]}] = ${written(value, 4, picture.header.words.undefined)}`,
    note(picture, box.matrix, row, column),
  );
}
