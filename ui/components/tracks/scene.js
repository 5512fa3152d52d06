// Rows of values over one axis of letters as a scene, and the points of it that are read.

import { between, css, headColour } from "../../../transformer/plots/canvas/shared/colours.js";
import { legendOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { shifted } from "../../../transformer/plots/canvas/shared/scene.js";
import { counted, fill, rounded, ticksOf } from "../../../transformer/plots/canvas/shared/words.js";

const SIDE = { left: 46, right: 10 }; // of the axis: numbers of values stand on the left
const TALL = { stems: 220, steps: 220, bars: 130, boxes: 16 };
const CELLS = { all: 116, least: 12, most: 28 };
const [TITLE, NAME, GAP, FONT] = [20, 18, 12, 12];
const TICK = 70; // pixels between two numbers of letters, at least
const LETTER = { least: 4.5, apart: 9 }; // pixels from which on letters are written, in two lines by turns, or in one
const REACH = 24; // pixels from the pointer to what it reads, at most
const CHOSEN = 3; // the colour of what is pointed out, which no series has

/** @typedef {import("../../../transformer/plots/canvas/shared/scene.js").Item} Item */
/** @typedef {import("../../../transformer/plots/canvas/shared/colours.js").Theme} Theme */
/** @typedef {import("./tracks.js").View} View */
/** @typedef {import("./tracks.js").Track} Track */
/** @typedef {import("../../../transformer/plots/canvas/shared/saved.js").Legend} Legend */
/** @typedef {Legend["marks"][number]} Meaning */
/** @typedef {ReturnType<typeof axisOf>} Axis */

/** @typedef {{ x0: number, x1: number, y0: number, y1: number, place: number, value: number, said: string }} Point */

/** @typedef {{ points: Point[], pull: number }} Lane Points in one row; those that `pull` are read before others. */

/**
 * One track while it is drawn: from `top`, `tall` pixels, with each series' numbers.
 * @typedef {object} Row
 * @property {Track} track
 * @property {(Track["series"][number] & { places: Uint32Array, values: Float32Array })[]} series
 * @property {Axis} axis
 * @property {Theme} theme
 * @property {number} top
 * @property {number} tall
 * @property {(value: number) => number} up the height of a value
 * @property {(place: number, name: string, value: number) => string} said
 * @property {Item[]} items
 * @property {Lane[]} lanes
 */

/**
 * The axis from its first letter to its last one, which is the lower one on the other strand.
 * @param {{ first: number, last: number, letters: string }} axis
 * @param {number} width
 */
export function axisOf({ first, last, letters: written }, width) {
  const [low, high, way] = [Math.min(first, last), Math.max(first, last), last < first ? -1 : 1];
  const [left, right] = [SIDE.left, width - SIDE.right];
  const each = (right - left) / (high - low + 1);
  const at = (/** @type {number} */ place) => left + ((place - first) * way + 0.5) * each;
  const kept = (/** @type {number} */ place) => Math.min(Math.max(place, low), high);
  return {
    low, high, left, right, each, at, kept,
    holds: (/** @type {number} */ place) => place >= low && place <= high,
    placeAt: (/** @type {number} */ x) => kept(first + way * Math.floor((x - left) / each)),
    letterOf: (/** @type {number} */ place) => written[(place - first) * way] ?? "",
  };
}

/**
 * All tracks, the axis below them and what colours mean; `rows` are the pixels of the values 0 and 1 of each.
 * @param {Pick<View, "header" | "arrays" | "theme" | "ruler">} view
 * @param {number} width
 */
export function sceneOf({ header, arrays, theme, ruler }, width) {
  const { axis: asked, tracks, spans, words } = header;
  const axis = axisOf(asked, width);
  /** @type {Item[]} */
  const items = [];
  /** @type {Lane[]} */
  const lanes = [];
  const room = width - SIDE.left;
  const text = /** @type {const} */ ({ kind: "text", room, align: "left", colour: theme.text, size: FONT });
  let bottom = spans.length ? NAME : 0;
  const rows = tracks.map((track, order) => {
    if (track.title) items.push({ ...text, text: track.title, x: SIDE.left, y: bottom + TITLE / 2 });
    const top = bottom + (track.title ? TITLE : 0);
    const tall = track.form === "cells" ? track.series.length * cellOf(track) : TALL[track.form];
    const [low, high] = track.ends;
    const up = (/** @type {number} */ value) => top + 4 + ((tall - 8) * (high - value)) / (high - low);
    const series = track.series.map((one, number) => {
      const [places, values] = ["places", "values"].map((name) => arrays[`${order}.${number}.${name}`]);
      return { ...one, places, values };
    });
    const said = (/** @type {number} */ place, /** @type {string} */ name, /** @type {number} */ value) => {
      const letter = `${axis.letterOf(place)} ${counted(place)}`.trim();
      const number = value.toFixed(3).replace("-", "−");
      return fill(track.form === "cells" ? words.cell : words.value, { place: letter, name, value: number });
    };
    DRAW[track.form]({ track, series, axis, theme, top, tall, up, said, items, lanes });
    bottom = top + tall + GAP;
    return { top, tall, low: up(0), high: up(1) };
  });
  const framed = spans.map(({ first, last, name }) => {
    const [from, to] = [axis.at(first), axis.at(last)];
    return { name, x: Math.min(from, to) - axis.each / 2, end: Math.max(from, to) + axis.each / 2 };
  });
  const touch = (/** @type {number} */ one, /** @type {number} */ other) => Math.abs(one - other) < axis.each / 2;
  for (const { name, x, end } of framed) {
    const colour = colourOf(-1, theme);
    for (const { top, tall } of rows) {
      items.push({ kind: "frame", x, y: top, width: end - x, height: tall, colour, line: 1.5 });
    }
    const free = framed.some((one) => touch(one.end, x)) ? "left" : "center";
    const align = framed.some((one) => touch(one.x, end)) ? "right" : free;
    const at = { left: x + 3, center: (x + end) / 2, right: end - 3 }[align];
    items.push({ ...text, text: name, x: at, y: NAME / 2, align, colour });
  }
  bottom += letters(items, axis, bottom - GAP, text) - GAP;
  items.push({ ...text, text: asked.title, x: (axis.left + axis.right) / 2, y: bottom + NAME / 2, align: "center" });
  const legend = legendOf(ruler, meanings(tracks, theme, words), width - SIDE.left, theme);
  bottom += NAME + 6;
  for (const item of legend.items) items.push(shifted(item, SIDE.left, bottom));
  return { items, lanes, rows, axis, height: bottom + legend.height };
}

/**
 * The letters where there is room for each, and their numbers; returns how high they are.
 * @param {Item[]} items
 * @param {Axis} axis
 * @param {number} top
 * @param {Omit<import("../../../transformer/plots/canvas/shared/scene.js").Words, "text" | "x" | "y">} look
 */
function letters(items, axis, top, look) {
  const text = /** @type {const} */ ({ ...look, align: "center" });
  const named = axis.each >= LETTER.least && axis.letterOf(axis.low);
  const lower = axis.each < LETTER.apart ? 10 : 0;
  for (let place = axis.low; named && place <= axis.high; place++) {
    const placed = { ...text, y: top + 9 + lower * (place % 2), size: lower ? 10 : FONT };
    items.push({ ...placed, text: axis.letterOf(place), x: axis.at(place) });
  }
  const y = top + (named ? 16 + lower : 0);
  for (const place of ticksOf(axis.low, axis.high, (axis.right - axis.left) / TICK, 1)) {
    const x = axis.at(place);
    items.push({ kind: "rule", x0: x, y0: y + 1, x1: x, y1: y + 4, colour: text.colour, width: 1 });
    items.push({ ...text, text: counted(place), x: Math.min(x, axis.right - 12), y: y + 11 });
  }
  return y + 20 - top;
}

/** @type {Record<Track["form"], (row: Row) => void>} */
const DRAW = { stems, steps, bars, cells, boxes };

/**
 * A stem and a dot for each value, below the marks.
 * @param {Row} row
 */
function stems(row) {
  const { axis, items, up } = row;
  scaled(row, (one, place, value, colour) => {
    const [x, y] = [axis.at(place), up(value)];
    if (Math.abs(y - up(0)) > 1) {
      items.push({ kind: "rule", x0: x, y0: up(0), x1: x, y1: y, colour, width: 1.5, dash: dashOf(one) });
    }
    items.push({ kind: "box", x: x - 1.5, y: y - 1.5, width: 3, height: 3, colour });
    return { x0: x, x1: x, y0: y, y1: y };
  });
}

/**
 * A line that keeps each value until half-way to the next one.
 * @param {Row} row
 */
function steps(row) {
  const { axis, items, up } = row;
  scaled(row, (one, place, value, colour, index) => {
    const half = (/** @type {number} */ to) => axis.at(axis.kept((place + (one.places[to] ?? place)) / 2));
    const [x0, x1, y] = [half(index - 1), half(index + 1), up(value)];
    const line = { colour, width: 1.5, dash: dashOf(one) };
    items.push({ kind: "rule", x0, x1, y0: y, y1: y, ...line });
    const next = one.values[index + 1];
    if (Number.isFinite(next)) items.push({ kind: "rule", x0: x1, x1, y0: y, y1: up(next), ...line });
    const x = axis.at(place);
    return { x0: x, x1: x, y0: y, y1: y };
  });
}

/**
 * Values along a scale with its ticks, drawn by `paint`, which says where a point is; and marks, arrows and lines
 * above.
 * @param {Row} row
 * @param {(one: Row["series"][number], place: number, value: number, colour: string, index: number) =>
 *   Omit<Point, "place" | "value" | "said">} paint
 */
function scaled({ track, series, axis, theme, up, said, items, lanes }, paint) {
  const [low, high] = track.ends;
  for (const tick of ticksOf(low, high, 4)) {
    const text = rounded(Math.abs(tick), 6);
    const [y, colour] = [up(tick), tick ? theme.border : css(theme.hatch)];
    items.push({ kind: "rule", x0: axis.left, y0: y, x1: axis.right, y1: y, colour, width: 1 });
    const room = axis.left - 6;
    items.push({ kind: "text", text, x: room, y, room, align: "right", colour: theme.text, size: FONT });
  }
  const found = series.map((one) => {
    /** @type {Point[]} */
    const points = [];
    one.places.forEach((place, index) => {
      const value = one.values[index];
      if (Number.isNaN(value) || !axis.holds(place)) return;
      const where = paint(one, place, value, colourOf(one.colour, theme), index);
      points.push({ ...where, place, value, said: said(place, one.said, Math.abs(value)) });
    });
    return { points, pull: 0 };
  });
  for (const line of track.lines) {
    const look = { colour: theme.text, width: 1, dash: [2, 3], alpha: 0.7 };
    items.push({ kind: "rule", x0: axis.left, y0: up(line), x1: axis.right, y1: up(line), ...look });
  }
  const arrows = track.arrows.filter(({ place }) => axis.holds(place)).map(({ place, before, after, said: told }) => {
    const [x, y0, y1, colour] = [axis.at(place), up(before), up(after), colourOf(-1, theme)];
    const back = y1 < y0 ? 8 : -8;
    for (const [x1, y] of [[x, y0], [x - 5, y1 + back], [x + 5, y1 + back]]) {
      items.push({ kind: "rule", x0: x, y0: y1, x1, y1: y, colour, width: 3 });
    }
    return { x0: x, x1: x, y0: Math.min(y0, y1), y1: Math.max(y0, y1), place, value: after, said: told };
  });
  const held = track.marks.filter(({ place }) => axis.holds(place));
  const marks = held.map(({ place, value, said: told, colour: own, full, chosen }) => {
    const [x, y, radius, colour] = [axis.at(place), up(value), chosen ? 8 : 4.5, colourOf(own, theme)];
    const edge = chosen ? colourOf(-1, theme) : colour;
    items.push({ kind: "dot", x, y, radius, colour: full ? colour : theme.background, edge });
    return { x0: x - radius, x1: x + radius, y0: y - radius, y1: y + radius, place, value, said: told };
  });
  const all = [{ points: marks, pull: 6 }, { points: arrows, pull: 3 }, ...found];
  lanes.push(...all.filter(({ points }) => points.length));
}

/**
 * A bar a letter, of all series above each other.
 * @param {Row} row
 */
function bars(row) {
  const { axis, items, up } = row;
  const reached = new Map();
  const wide = Math.max(axis.each * 0.9, 0.5);
  scaled(row, (_, place, value, colour) => {
    const from = reached.get(place) ?? 0;
    reached.set(place, from + value);
    const [x, y, height] = [axis.at(place) - wide / 2, up(from + value), up(from) - up(from + value)];
    items.push({ kind: "box", x, y, width: wide, height, colour });
    return { x0: x, x1: x + wide, y0: y, y1: y + height };
  });
}

/**
 * A row a series, each letter in a colour about 0; a dot where there is no value.
 * @param {Row} row
 */
function cells({ track, series, axis, theme, top, said, items, lanes }) {
  const [limit, high] = [track.ends[1], cellOf(track)];
  series.forEach((one, order) => {
    /** @type {Point[]} */
    const points = [];
    const y = top + order * high;
    const look = /** @type {const} */ ({ align: "right", colour: theme.text, size: FONT });
    items.push({ kind: "text", text: one.name, x: axis.left - 6, y: y + high / 2, room: axis.left, ...look });
    one.places.forEach((place, index) => {
      const value = one.values[index];
      const [x, x1] = [-0.5, 0.5].map((half) => Math.round(axis.at(place) + half * axis.each));
      const colour = css(Number.isNaN(value) ? theme.hatch : between(value / limit, theme));
      if (Number.isNaN(value)) {
        const radius = Math.min(1.5, axis.each / 2);
        return items.push({ kind: "dot", x: axis.at(place), y: y + high / 2, radius, colour });
      }
      items.push({ kind: "box", x, y, width: Math.max(x1 - x, 1), height: high, colour });
      return points.push({ x0: x, x1, y0: y, y1: y + high, place, value, said: said(place, one.said, value) });
    });
    if (points.length) lanes.push({ points, pull: 0 });
  });
}

/**
 * Boxes joined by a line, such as the exons of a transcript.
 * @param {Row} row
 */
function boxes({ track, axis, theme, top, tall, items, lanes }) {
  for (const group of track.boxes) {
    const shown = group.filter(({ first, last }) => last >= axis.low && first <= axis.high);
    const [from, to] = [group[0].first, group[group.length - 1].last].map((place) => axis.at(axis.kept(place)));
    const colour = css(theme.hatch);
    const y = top + tall / 2;
    if (to > from) items.push({ kind: "rule", x0: from, y0: y, x1: to, y1: y, colour, width: 1 });
    const points = shown.map(({ first, last, name }) => {
      const [x0, x1] = [axis.at(axis.kept(first)) - axis.each / 2, axis.at(axis.kept(last)) + axis.each / 2];
      items.push({ kind: "box", x: x0, y: top + 2, width: Math.max(x1 - x0, 1), height: tall - 4, colour });
      return { x0, x1, y0: top, y1: top + tall, place: 0, value: 0, said: name };
    });
    if (points.length) lanes.push({ points, pull: 0 });
  }
}

/**
 * The point nearest to the pointer, as lane and place in it; null where none is near.
 * @param {Lane[]} lanes
 * @param {number} x
 * @param {number} y
 */
export function nearest(lanes, x, y) {
  /** @type {[number, number] | null} */
  let found = null;
  let least = REACH;
  lanes.forEach(({ points, pull }, row) => {
    points.forEach(({ x0, x1, y0, y1 }, column) => {
      const away = Math.hypot(Math.max(x0 - x, 0, x - x1), Math.max(y0 - y, 0, y - y1)) - pull;
      if (away < least) [found, least] = [[row, column], away];
    });
  });
  return found;
}

/**
 * What the colours mean.
 * @param {Track[]} tracks
 * @param {Theme} theme
 * @param {View["header"]["words"]} words
 * @returns {Legend}
 */
function meanings(tracks, theme, words) {
  const centred = tracks.find(({ form }) => form === "cells");
  const marks = tracks.filter((track) => track !== centred).flatMap(({ form, series }) => series.map((one) => {
    const colour = colourOf(one.colour, theme);
    const line = { colour, width: 2, dash: dashOf(one) };
    return /** @type {Meaning} */ ([one.name, (x, y, side) => [form === "bars"
      ? { kind: "box", x, y, width: side, height: side, colour }
      : { kind: "rule", x0: x, y0: y + side / 2, x1: x + side, y1: y + side / 2, ...line }]]);
  }));
  if (!centred) return { name: "", ticks: [], marks, note: "" };
  const limit = centred.ends[1];
  const hatch = css(theme.hatch);
  marks.push([words.given, (x, y, side) => (
    [{ kind: "dot", x: x + side / 2, y: y + side / 2, radius: 2, colour: hatch }]
  )]);
  const text = rounded(limit, 2);
  /** @type {Legend["ticks"]} */
  const ticks = [[`−${text}`, 0], ["0", 0.5], [`+${text}`, 1]];
  return { name: words.unit, ticks, colour: (share) => between(2 * share - 1, theme), marks, note: "" };
}

/** @param {Track} track */
function cellOf(track) {
  return Math.min(Math.max(CELLS.all / track.series.length, CELLS.least), CELLS.most);
}

/** @param {{ dashed: boolean }} series */
function dashOf({ dashed }) {
  return dashed ? [3, 2] : [];
}

/**
 * The colour of a series; -1 is what is pointed out.
 * @param {number} number
 * @param {Theme} theme
 */
function colourOf(number, theme) {
  return headColour(number < 0 ? CHOSEN : number + Number(number >= CHOSEN), theme, 2);
}
