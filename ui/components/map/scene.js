// The map as SVG: built once for a layout, then every step only changes what depends on it.

import { svg } from "../../../transformer/plots/canvas/shared/page.js";
import { headsImage, pictureRow, rowMarks } from "./heads.js";
import { bandOf, NEXT_LINE, STREAM, streamOf } from "./layout.js";
import { lookOf, placesOf, positionIn, queryIn, spoken, sumAt, valueAt } from "./numbers.js";

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
  const shareOf = (/** @type {number} */ part) => sumAt(arrays, part, positionIn(view, number))?.share ?? null;
  view.updates.push(() => stream.setAttribute("d", streamOf(tower, shareOf)));
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
      const y = (placed.read + last.merge) / 2 + 4;
      sheet.append(svg("text", { class: "times", x, y, "text-anchor": "middle" }, `× ${slim}`));
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
  const size = { width: tower.width - 30, height: tower.bottom - tower.wordsTop };
  box.append(svg("rect", { class: "ground", x: from - 4, y: tower.wordsTop, ...size, rx: 6 }));
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
    const name = `box ${view.header.parts[part].kind}${row.slim ? " slim" : ""}`;
    box.append(svg("rect", { class: name, x, y, width, height, rx: row.slim ? 3 : 6 }));
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
    const placed = { x: grid.x, y: grid.y, width: wide, height: grid.tall, preserveAspectRatio: "none" };
    const image = svg("image", { class: "heads", ...placed });
    image.setAttribute("href", headsImage(arrays[`codes${row.name}`], shape, grid, view.theme));
    const mark = svg("path", { class: "row-mark" });
    box.append(look, image, mark);
    view.updates.push(() => {
      look.textContent = view.short(lookOf(view, number, row), rest);
      const shown = pictureRow(row.heads ?? { shape, queries: 0 }, queryIn(view, number, row));
      mark.setAttribute("d", rowMarks(grid, shape, shown));
    });
  }
  const active = arrays[`active${row.name}`];
  if (active && kind === "feed_forward") {
    const look = svg("text", { class: "look", x: x + width - 8, y: middle + 4, "text-anchor": "end" });
    box.append(look);
    view.updates.push(() => (look.textContent = `${Math.round(100 * valueAt(active, positionIn(view, number)))}%`));
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
  const placed = { cx: x.toFixed(1), cy: y.toFixed(1), r: className === "sum" ? 4 : 3.6 };
  for (const [name, value] of Object.entries(placed)) made.setAttribute(name, String(value));
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
    const bends = `Q${lane} ${exit} ${lane} ${exit + turn} V${y - turn} Q${lane} ${y} ${lane + 10} ${y}`;
    const d = layout.beside
      ? `M${from} ${exit} H${lane - 10} ${bends} H${target.x}`
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
function nextOf({ header, step }) {
  const { next } = header.steps;
  return next[next.length === 1 ? 0 : step < 0 ? next.length - 1 : step] ?? [];
}
