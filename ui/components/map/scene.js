// The map as SVG: built once for a layout, then every step only changes what depends on it; and what is said of a part when
// it is pointed at, or read aloud: its name, its formula, and this run's numbers, at no position (-1) means over all.

import { paint } from "../../../transformer/plots/canvas/all_heads/all_heads.js";
import { lookOf as lookOfWeights, valuesOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { element, pen, svg } from "../../../transformer/plots/canvas/shared/page.js";
import { fill } from "../../../transformer/plots/canvas/shared/words.js";
import { bandOf, NEXT_LINE, STREAM, streamOf } from "./layout.js";

/** @typedef {import("./map.js").View} View */
/** @typedef {import("./layout.js").PlacedTower} PlacedTower */
/** @typedef {import("./layout.js").PlacedRow} PlacedRow */

/**
 * Build everything, and what brings it to the view's step.
 * @param {View} view
 */
export function build(view) {
  const { layout, header, sheet } = view;
  view.places = placesOf(header.towers);
  view.made = new Map();
  sheet.replaceChildren();
  sheet.setAttribute("viewBox", `0 0 ${layout.wide.toFixed(0)} ${layout.height.toFixed(0)}`);
  sheet.setAttribute("aria-label", header.about);
  view.updates = [];
  layout.towers.forEach((tower, number) => buildTower(view, tower, number));
  if (layout.towers.length === 2) buildBus(view);
  buildNext(view);
}

/**
 * @param {View} view
 * @param {PlacedTower} tower
 * @param {number} number
 */
function buildTower(view, tower, number) {
  const { sheet, header, arrays } = view;
  const inner = tower.mirrored ? tower.x : tower.x + tower.width;
  const stream = svg("path", { class: "stream" });
  view.updates.push(() => stream.setAttribute("d", streamOf(tower, (part) => sumAt(arrays, part, positionIn(view, number))?.share ?? null)));
  for (const { y, height, slim } of tower.frames) {
    if (slim) continue;
    sheet.append(svg("rect", { class: "layer", x: tower.x, y: y - 3, width: tower.width, height: height + 6, rx: 7 }));
  }
  sheet.append(stream);
  for (const { layer, y, height, slim } of tower.frames) {
    if (slim) continue;
    const x = tower.stream + (tower.mirrored ? -1 : 1) * (STREAM / 2);
    const label = svg("text", { class: "layer-number", x, y: y + height - 5, "text-anchor": "middle" }, String(layer));
    label.setAttribute("aria-hidden", "true");
    sheet.append(label);
  }
  const anchor = { x: inner, y: tower.top - 3, "text-anchor": tower.mirrored ? "start" : "end" };
  sheet.append(svg("text", { class: "tower-title", ...anchor }, header.towers[number].title));
  buildWords(view, tower, number);
  const slim = tower.rows.filter(({ row }) => row.slim).length;
  let told = false;
  tower.rows.forEach((placed) => {
    buildRow(view, tower, number, placed);
    if (placed.row.slim && !told) {
      told = true;
      const x = placed.boxes[0].x + placed.boxes[0].width / 2;
      const last = tower.rows.filter(({ row }) => row.slim).at(-1) ?? placed;
      sheet.append(svg("text", { class: "times", x, y: (placed.read + last.merge) / 2 + 4, "text-anchor": "middle" }, `× ${slim}`));
    }
  });
}

/**
 * @param {View} view
 * @param {PlacedTower} tower
 * @param {number} number
 */
function buildWords(view, tower, number) {
  const { sheet, header } = view;
  const { reads, stepped } = header.towers[number];
  const box = partGroup(view, reads);
  const from = tower.mirrored ? tower.x : tower.x + 34;
  box.append(svg("rect", { class: "ground", x: from - 4, y: tower.wordsTop, width: tower.width - 30, height: tower.bottom - tower.wordsTop, rx: 6 }));
  sheet.append(box);
  for (const placed of tower.words) buildWord(view, box, placed, stepped);
}

/**
 * A word that can be clicked, over its mark: the step's own word where words are steps, else how much it is looked at.
 * @param {View} view
 * @param {SVGElement} place
 * @param {import("./layout.js").PlacedWord} placed
 * @param {boolean} stepped
 */
function buildWord(view, place, { text, index, x, y, width }, stepped) {
  const { written, decided } = view.header.steps;
  const word = svg("text", { class: "word", x: x + 3.5, y: y + 4 }, text);
  const mark = svg("rect", { class: "word-mark", x, y: y - 9, width, height: 18, rx: 5 });
  word.addEventListener("click", (event) => {
    event.stopPropagation();
    if (!stepped) view.send("pinned", index === view.pinned ? -1 : index);
    else view.goTo(!written && view.step === index ? -1 : index);
  });
  place.append(mark, word);
  view.updates.push(() => {
    const here = index === (stepped ? view.step : view.source);
    mark.setAttribute("fill-opacity", here && stepped ? "1" : stepped ? "0" : (view.lights[index] ?? 0).toFixed(3));
    mark.classList.toggle(stepped ? "here" : "from", here);
    mark.classList.toggle("decides", !stepped && (decided[view.step] ?? []).includes(index));
    word.classList.toggle("here", here);
    word.classList.toggle("later", stepped && written && index > view.step);
  });
}

/**
 * @param {View} view
 * @param {PlacedTower} tower
 * @param {number} number
 * @param {PlacedRow} placed
 */
function buildRow(view, tower, number, placed) {
  const { sheet, arrays } = view;
  const { row, y, height, boxes, read } = placed;
  const inLayer = row.layer >= 0 && !row.slim;
  const sign = tower.mirrored ? -1 : 1;
  if (inLayer) {
    const edge = tower.mirrored ? boxes[0].x + boxes[0].width : boxes[0].x;
    const from = tower.stream + sign * STREAM;
    const into = y + height * 0.7;
    sheet.append(svg("path", { class: "reads", d: `M${from} ${read - 1} Q${from} ${into} ${edge} ${into}` }));
    const band = svg("path", { class: "band" });
    sheet.append(band);
    view.updates.push(() => {
      const share = row.sums.length ? sumAt(arrays, row.sums[0], positionIn(view, number))?.share : undefined;
      band.setAttribute("d", bandOf(tower, placed, share ?? 0.06));
    });
    const middle = (edge + from) / 2;
    row.before.forEach((part) => dot(view, part, "norm", middle, into));
    row.sums.forEach((part) => dot(view, part, "sum", tower.stream + sign * STREAM, placed.merge + 1));
    row.after.forEach((part) => dot(view, part, "norm", tower.stream + (sign * STREAM) / 2, placed.merge - 3));
  }
  for (const { part, x, width } of boxes) {
    const box = partGroup(view, part);
    sheet.append(box);
    box.append(svg("rect", { class: `box ${view.header.parts[part].kind}${row.slim ? " slim" : ""}`, x, y, width, height, rx: row.slim ? 3 : 6 }));
    if (!row.slim) fillBox(view, number, placed, box, part, x, width);
  }
}

/**
 * @param {View} view
 * @param {number} number
 * @param {PlacedRow} placed
 * @param {SVGElement} box
 * @param {number} part
 * @param {number} x
 * @param {number} width
 */
function fillBox(view, number, { row, y, height, grid }, box, part, x, width) {
  const { header, arrays } = view;
  const { title, kind } = header.parts[part];
  const middle = y + height / 2;
  const rest = grid ? width - (x + width - grid.x) - 12 : width - 14;
  const name = svg("text", { class: "title", x: x + 8, y: grid ? middle - 2 : middle + 4 }, view.short(title, rest));
  box.append(name);
  if (grid && row.heads) {
    const { shape } = row.heads;
    const look = svg("text", { class: "look", x: x + 8, y: middle + 12 });
    const wide = grid.across * (grid.side + grid.gap) - grid.gap;
    const image = svg("image", { class: "heads", x: grid.x, y: grid.y, width: wide, height: grid.tall, preserveAspectRatio: "none" });
    image.setAttribute("href", headsImage(arrays[`codes${row.name}`], shape, grid, view.theme));
    const mark = svg("path", { class: "row-mark" });
    box.append(look, image, mark);
    view.updates.push(() => {
      look.textContent = view.short(lookOf(view, number, row), rest);
      mark.setAttribute("d", rowMarks(grid, shape, pictureRow(row.heads ?? { shape, queries: 0 }, queryIn(view, number, row))));
    });
  }
  const active = arrays[`active${row.name}`];
  if (active && kind === "feed_forward") {
    const look = svg("text", { class: "look", x: x + width - 8, y: middle + 4, "text-anchor": "end" });
    box.append(look);
    view.updates.push(() => (look.textContent = `${Math.round(100 * valueAt(active, positionIn(view, number)))} %`));
  }
}

/**
 * A norm or a sum: a small circle that can be reached and opened like every part.
 * @param {View} view
 * @param {number} part
 * @param {string} className
 * @param {number} x
 * @param {number} y
 */
function dot(view, part, className, x, y) {
  const made = partGroup(view, part, "circle");
  made.classList.add(className);
  for (const [name, value] of Object.entries({ cx: x.toFixed(1), cy: y.toFixed(1), r: className === "sum" ? 4 : 3.6 })) made.setAttribute(name, String(value));
  view.sheet.append(made);
}

/**
 * The element of a part, which the keyboard reaches, and which says what it is.
 * @param {View} view
 * @param {number} part
 */
function partGroup(view, part, tag = "g") {
  const made = svg(tag, { class: "part", role: "button", tabindex: -1, "data-part": part });
  view.made.set(part, made);
  view.updates.push(() => {
    made.setAttribute("aria-label", spoken(view, part));
    made.classList.toggle("open", view.opened === part);
  });
  return made;
}

/**
 * From the encoder's top to every cross-attention: as thick as what that one adds.
 * @param {View} view
 */
function buildBus(view) {
  const { sheet, layout, arrays } = view;
  const [source, target] = layout.towers;
  const crossing = target.rows.filter(({ row }) => row.crosses);
  if (!crossing.length) return;
  const top = source.rows.find(({ row }) => row.feeds) ?? source.rows.at(-1);
  const exit = top ? top.y + top.height / 2 : source.top;
  const from = source.x + source.width;
  const lane = from + (target.x - from) / 2;
  for (const placed of crossing) {
    const y = placed.y + placed.height / 2;
    const turn = Math.sign(y - exit) * Math.min(10, Math.abs(y - exit));
    const d = layout.beside
      ? `M${from} ${exit} H${lane - 10} Q${lane} ${exit} ${lane} ${exit + turn} V${y - turn} Q${lane} ${y} ${lane + 10} ${y} H${target.x}`
      : `M${from} ${exit} C${from + 16} ${exit} ${from + 16} ${y} ${from} ${y}`;
    const line = svg("path", { class: "cross", d });
    sheet.prepend(line);
    view.updates.push(() => {
      const sum = placed.row.sums[0];
      const share = sum === undefined ? null : sumAt(arrays, sum, positionIn(view, 1));
      line.setAttribute("stroke-width", share ? Math.max(STREAM * share.share, 1).toFixed(1) : "1.5");
    });
  }
}

/**
 * What comes out: the words that were written, and the likeliest outputs of this step.
 * @param {View} view
 */
function buildNext(view) {
  const { sheet, header, layout } = view;
  for (const placed of layout.written) buildWord(view, sheet, placed, true);
  const { x, y, width, lines } = layout.next;
  const end = layout.towers[layout.towers.length - 1];
  const from = end.mirrored ? x : x + 34;
  const room = width - 34;
  sheet.append(svg("text", { class: "next-title", x: from + 4, y: y + 12 }, header.steps.title));
  for (let order = 0; order < lines; order++) {
    const at = y + 18 + order * NEXT_LINE;
    const name = svg("text", { class: "next-word", x: from + 96, y: at + 11, "text-anchor": "end" });
    const bar = svg("rect", { class: "next-bar", x: from + 102, y: at + 2, height: NEXT_LINE - 5, rx: 2 });
    const number = svg("text", { class: "next-number", y: at + 11 });
    sheet.append(name, bar, number);
    view.updates.push(() => {
      const one = nextOf(view)[order];
      const wide = one ? one[1] * (room - 150) : 0;
      name.textContent = one ? view.short(one[0], 90) : "";
      name.classList.toggle("here", Boolean(one) && header.steps.written && one[0] === header.steps.labels[view.step]);
      bar.setAttribute("width", Math.max(wide, one ? 1 : 0).toFixed(1));
      number.setAttribute("x", (from + 106 + wide).toFixed(1));
      number.textContent = one ? one[1].toFixed(one[1] < 0.01 ? 3 : 2) : "";
    });
  }
}

/**
 * The likeliest outputs at the view's step; those of the end where nothing is chosen.
 * @param {View} view
 * @returns {[string, number][]}
 */
export function nextOf({ header, step }) {
  const { next } = header.steps;
  return next[next.length === 1 ? 0 : step < 0 ? next.length - 1 : step] ?? [];
}

/**
 * All heads of an attention as one picture, in the colours that weights have everywhere; masked cells are left out.
 * @param {Uint8Array} codes
 * @param {[number, number, number]} shape heads, rows, columns
 * @param {import("./layout.js").Grid} grid
 * @param {import("../../../transformer/plots/canvas/shared/colours.js").Theme} theme
 */
function headsImage(codes, [heads, rows, columns], grid, theme) {
  const dense = 3;
  const [cells, values] = [element("canvas"), valuesOf(codes)];
  const look = { ...lookOfWeights(1, false, theme), masked: 0, hatch: 0 };
  const [wide, high] = [grid.across * (grid.side + grid.gap) - grid.gap, grid.tall];
  const sheet = element("canvas", "", null, { width: Math.round(wide * dense), height: Math.round(high * dense) });
  const ink = pen(sheet);
  ink.imageSmoothingEnabled = columns > grid.side * dense || rows > grid.each * dense;
  ink.strokeStyle = "rgb(128 128 128 / 0.5)";
  for (let head = 0; head < heads; head++) {
    paint(cells, values, [1, heads, rows, columns], head, look, 1);
    const [x, y] = cornerOf(grid, head);
    const corners = /** @type {const} */ ([x * dense, y * dense, grid.side * dense, grid.each * dense]);
    ink.drawImage(cells, ...corners);
    ink.strokeRect(...corners);
  }
  return sheet.toDataURL();
}

/**
 * Where a head's picture stands within its grid.
 * @param {import("./layout.js").Grid} grid
 * @param {number} head
 */
export function cornerOf(grid, head) {
  return [(head % grid.across) * (grid.side + grid.gap), Math.floor(head / grid.across) * (grid.each + grid.gap)];
}

/**
 * The head at a place within a grid; null between two of them.
 * @param {import("./layout.js").Grid} grid
 * @param {number} heads
 * @param {number} x
 * @param {number} y
 */
export function headAt(grid, heads, x, y) {
  const [column, line] = [Math.floor(x / (grid.side + grid.gap)), Math.floor(y / (grid.each + grid.gap))];
  const head = line * grid.across + column;
  const inside = x >= 0 && y >= 0 && column < grid.across && line < grid.lines && x % (grid.side + grid.gap) <= grid.side;
  return inside && head < heads ? head : null;
}

/**
 * A tick before the row of one query in every head.
 * @param {import("./layout.js").Grid} grid
 * @param {[number, number, number]} shape
 * @param {number | null} row of the picture
 */
function rowMarks(grid, [heads, rows], row) {
  if (row === null) return "";
  let path = "";
  for (let head = 0; head < heads; head++) {
    const [x, y] = cornerOf(grid, head);
    path += `M${(grid.x + x - 3.4).toFixed(1)} ${(grid.y + y + ((row + 0.5) * grid.each) / rows).toFixed(1)}h3`;
  }
  return path;
}

/**
 * @typedef {{ kind: string, title: string, plain: string, formula: string, facts: string[] }} PartHeader
 * @typedef {import("./layout.js").RowHeader} RowHeader
 */

/** @typedef {{ tower: number, row: RowHeader | null, role: "read" | "box" | "before" | "after" | "sum" }} Place */

/**
 * The place of every part, by its number, in the order in which they run.
 * @param {import("./layout.js").TowerHeader[]} towers
 * @returns {Map<number, Place>}
 */
export function placesOf(towers) {
  /** @type {Map<number, Place>} */
  const found = new Map();
  towers.forEach(({ reads, rows }, tower) => {
    found.set(reads, { tower, row: null, role: "read" });
    for (const row of rows) {
      const roles = /** @type {const} */ ([["before", row.before], ["box", row.boxes], ["sum", row.sums], ["after", row.after]]);
      for (const [role, parts] of roles) for (const part of parts) found.set(part, { tower, row, role });
    }
  });
  return found;
}

/**
 * The position of a tower that is looked at; -1 for the mean of all.
 * @param {View} view
 * @param {number} tower
 */
export function positionIn({ header, step, source }, tower) {
  return header.towers[tower].stepped ? step : source;
}

/**
 * What stands at the positions of a tower.
 * @param {View} view
 * @param {number} tower
 */
function labelsIn({ header }, tower) {
  return header.towers[tower].stepped ? header.steps.labels : header.towers[tower].words;
}

/**
 * The query of an attention that is looked at; -1 where its queries are no positions of the tower.
 * @param {View} view
 * @param {number} tower
 * @param {RowHeader} row
 */
export function queryIn(view, tower, row) {
  const own = row.heads?.queries === labelsIn(view, tower).length;
  return own ? positionIn(view, tower) : -1;
}

/**
 * Where the surest head of a row looks at this step, in few characters; nothing where that is not one answer.
 * @param {View} view
 * @param {number} tower
 * @param {RowHeader} row
 */
export function lookOf(view, tower, row) {
  const sure = sureAt(view.arrays, row.name, queryIn(view, tower, row));
  if (!sure || !row.heads) return "";
  const key = view.header.axes[row.heads.keys][sure.key] ?? "";
  return fill(view.header.words.look, { head: sure.head, key, weight: sure.weight.toFixed(2) });
}

/**
 * This run's numbers of a part, a line each.
 * @param {View} view
 * @param {number} part
 * @returns {string[]}
 */
export function numbersOf(view, part) {
  const { header, arrays, places } = view;
  const { words } = header;
  const place = /** @type {Place} */ (places.get(part));
  const position = positionIn(view, place.tower);
  const lines = [];
  const sum = sumAt(arrays, part, position);
  if (sum) {
    lines.push(fill(words.sum, { found: sum.found.toFixed(2), state: sum.state.toFixed(2), share: sum.share.toFixed(2) }));
  }
  const scale = arrays[`scale${part}`];
  if (scale) lines.push(fill(words.scale, { scale: valueAt(scale, position).toFixed(3) }));
  if (place.row && place.role === "box") {
    const active = arrays[`active${place.row.name}`];
    if (active) lines.push(fill(words.active, { share: Math.round(100 * valueAt(active, position)) }));
    const look = place.row.heads ? lookOf(view, place.tower, place.row) : "";
    if (look) lines.push(fill(words.surest, { look }));
    const merged = place.row.sums[0];
    const added = merged === undefined ? null : sumAt(arrays, merged, position);
    if (added && !place.row.slim) lines.push(fill(words.adds, { share: added.share.toFixed(2) }));
  }
  if (lines.length) lines.push(position < 0 ? words.of_all : fill(words.of_step, { word: labelsIn(view, place.tower)[position] }));
  return lines;
}

/**
 * A part as it is read aloud.
 * @param {View} view
 * @param {number} part
 */
export function spoken(view, part) {
  const { header } = view;
  const { title, plain, facts } = header.parts[part];
  const place = /** @type {Place} */ (view.places.get(part));
  const where = [header.towers[place.tower].title];
  if (place.row && place.row.layer >= 0) where.push(fill(header.words.layer, { layer: place.row.layer }));
  return [`${where.join(", ")}: ${title}`, ...numbersOf(view, part), ...facts, plain].filter(Boolean).join(". ");
}

/**
 * The mean of an array over all positions, or its value at one.
 * @param {ArrayLike<number>} values
 * @param {number} position
 */
export function valueAt(values, position) {
  if (position >= 0 && position < values.length) return values[position];
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i];
  return sum / Math.max(values.length, 1);
}

/**
 * What a sum added and what was there, and the share of the first; null where that was not watched.
 * @param {Record<string, any>} arrays
 * @param {number} part
 * @param {number} position
 */
export function sumAt(arrays, part, position) {
  const [found, state] = [arrays[`found${part}`], arrays[`state${part}`]];
  if (!found) return null;
  const shares = Array.from(found, (one, at) => (one + state[at] > 0 ? one / (one + state[at]) : 0));
  return { found: valueAt(found, position), state: valueAt(state, position), share: valueAt(shares, position) };
}

/**
 * Where the surest head of a query looks: its number, the key, the weight. Null for all queries at once.
 * @param {Record<string, any>} arrays
 * @param {string} row
 * @param {number} query
 */
export function sureAt(arrays, row, query) {
  const sure = arrays[`sure${row}`];
  if (!sure || query < 0 || 3 * query >= sure.length) return null;
  return { head: sure[3 * query], key: sure[3 * query + 1], weight: sure[3 * query + 2] };
}

/**
 * Which row of the pictures stands for a query; null for all at once, or where there is no such query.
 * @param {{ shape: [number, number, number], queries: number }} heads
 * @param {number} query
 */
export function pictureRow({ shape, queries }, query) {
  if (query < 0 || query >= queries) return null;
  return Math.floor(query / Math.ceil(queries / shape[1]));
}
