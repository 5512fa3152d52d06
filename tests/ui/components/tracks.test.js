// Tracks: where values stand on their axis, what is read there, and what is drawn, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { axisOf, nearest, sceneOf } from "../../../ui/components/tracks/scene.js";
import { ticksOf } from "../../../transformer/plots/canvas/shared/words.js";

const THEME = {
  text: "ink", background: "paper", border: "line", hatch: [9, 9, 9], font: "f", primary: "lit", dark: false,
};
const WORDS = { value: "{place} {name} {value}", cell: "{place}>{name} {value}", given: "given", unit: "nats" };
const TRACK = { title: "", ends: [0, 1], lines: [], series: [], marks: [], arrows: [], boxes: [] };
const AXIS = { first: 11, last: 20, title: "letters", letters: "ACGTACGTAC" };
const BLUE = "#0072b2";

function drawn(tracks, given = {}, header = {}) {
  const typed = ([name, values]) => [name, (name.endsWith("places") ? Uint32Array : Float32Array).from(values)];
  const arrays = Object.fromEntries(Object.entries(given).map(typed));
  const filled = tracks.map((one) => ({ ...TRACK, ...one }));
  const view = { header: { axis: AXIS, tracks: filled, spans: [], words: WORDS, ...header }, arrays, theme: THEME };
  return sceneOf({ ...view, ruler: { measureText: (text) => ({ width: 6 * text.length }) } }, 256);
}

const saidIn = ({ lanes }) => lanes.map(({ points }) => points.map(({ said }) => said));

test("letters of the other strand run backwards, and the pointer finds its letter within the axis", () => {
  const [forth, back] = [axisOf(AXIS, 256), axisOf({ ...AXIS, first: 20, last: 11 }, 256)];
  assert.equal(forth.each, 20);
  assert.deepEqual([forth.at(11), back.at(20), back.at(11)], [56, 56, 236]);
  assert.deepEqual([forth.letterOf(12), back.letterOf(20), back.letterOf(18)], ["C", "A", "G"]);
  assert.deepEqual([0, 67, 500].map(forth.placeAt), [11, 12, 20]);
  assert.deepEqual([0, 67, 500].map(back.placeAt), [20, 19, 11]);
});

test("ticks are round numbers, and of letters whole ones", () => {
  assert.deepEqual(ticksOf(-1, 1, 4), [-1, -0.5, 0, 0.5, 1]);
  assert.deepEqual(ticksOf(0, 1, 4), [0, 0.5, 1]);
  assert.deepEqual(ticksOf(0, 2.7, 4), [0, 1, 2]);
  assert.deepEqual(ticksOf(1, 1947, 10), [200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800]);
  assert.deepEqual(ticksOf(3, 5, 9, 1), [3, 4, 5]);
});

test("stems lead up and down from 0, none is drawn outside the axis, and a value is read without its sign", () => {
  const series = [{ name: "EI -", said: "EI", colour: 0, dashed: true }];
  const given = { "0.0.places": [5, 11, 13], "0.0.values": [-0.9, -0.25, -1] };
  const scene = drawn([{ form: "stems", ends: [-1, 1], lines: [-0.5], series }], given);
  assert.deepEqual(saidIn(scene), [["A 11 EI 0.250", "G 13 EI 1.000"]]);
  const [{ low: zero, high: one }] = scene.rows;
  const stemsOf = scene.items.filter(({ kind, x0, x1 }) => kind === "rule" && x0 === x1 && x0 === 96);
  const stem = { kind: "rule", x0: 96, x1: 96, y0: zero, y1: 2 * zero - one, colour: BLUE, width: 1.5, dash: [3, 2] };
  assert.deepEqual(stemsOf[0], stem);
  const threshold = scene.items.find(({ dash }) => dash?.[0] === 2);
  assert.equal(threshold.y0, (3 * zero - one) / 2);
});

test("a call is a dot, full where it is known, larger where it is chosen, and is read before the stem below it", () => {
  const marks = [
    { place: 12, value: 0.75, said: "known", colour: 1, full: true, chosen: false },
    { place: 14, value: 0.75, said: "chosen", colour: 0, full: false, chosen: true },
    { place: 31, value: 0.75, said: "elsewhere", colour: 0, full: false, chosen: false },
  ];
  const arrows = [{ place: 18, before: 1, after: 0, said: "lost" }];
  const series = [{ name: "EI", said: "EI", colour: 0, dashed: false }];
  const given = { "0.0.places": [12, 14, 18], "0.0.values": [0.75, 0.75, 0.5] };
  const scene = drawn([{ form: "stems", series, marks, arrows }], given);
  assert.deepEqual(saidIn(scene).slice(0, 2), [["known", "chosen"], ["lost"]]);
  const dots = scene.items
    .filter(({ kind }) => kind === "dot")
    .map(({ x, radius, colour, edge }) => [x, radius, colour, edge]);
  assert.deepEqual(dots, [[76, 4.5, "#d9600a", "#d9600a"], [116, 8, "paper", "#b03a86"]]);
  const { low: zero, high: one } = scene.rows[0];
  const at = (share) => zero + (one - zero) * share;
  assert.deepEqual(nearest(scene.lanes, 76, at(0.75)), [0, 0]);
  assert.deepEqual(nearest(scene.lanes, 198, at(0.2)), [1, 0], "all along an arrow");
  assert.equal(nearest(scene.lanes, 250, at(0.2)), null);
});

test("a line keeps a value until half-way to the next one, and breaks where there is none", () => {
  const series = [{ name: "EI", said: "EI", colour: 0, dashed: false }];
  const scene = drawn([{ form: "steps", series }], { "0.0.places": [12, 14, 16, 18], "0.0.values": [1, 0, NaN, 1] });
  const drawnLines = scene.items.filter(({ colour, width }) => colour === BLUE && width === 1.5);
  const lines = drawnLines.map(({ x0, x1 }) => [x0, x1]);
  assert.deepEqual(lines.filter(([x0, x1]) => x0 !== x1), [[76, 96], [96, 136], [176, 196]]);
  assert.equal(lines.length, 4, "one step between values, none to or from what is no value");
});

test("bars of one letter stand on each other, and each is read where it is", () => {
  const series = [
    { name: "3", said: "of 3", colour: 0, dashed: false },
    { name: "11", said: "of 11", colour: 1, dashed: false },
  ];
  const given = { "0.0.places": [11, 12], "0.0.values": [1, 0.5], "0.1.places": [11, 12], "0.1.values": [1, 1.5] };
  const scene = drawn([{ form: "bars", ends: [0, 2], series }], given);
  const [{ low: zero, high: one }] = scene.rows;
  const bars = scene.items.filter(({ kind, width }) => kind === "box" && width === 18);
  const boxes = bars.map(({ x, y, height }) => [x, y, height]);
  const unit = zero - one;
  const expected = [
    [47, zero - unit, unit], [67, zero - unit / 2, unit / 2],
    [47, zero - 2 * unit, unit], [67, zero - 2 * unit, 1.5 * unit],
  ];
  boxes.forEach((box, order) => box.forEach((number, i) => assert.ok(Math.abs(number - expected[order][i]) < 1e-9)));
  assert.deepEqual(nearest(scene.lanes, 76, zero - 0.4 * unit), [0, 1]);
  assert.deepEqual(nearest(scene.lanes, 76, zero - 0.6 * unit), [1, 1]);
});

test("mutations are cells about 0, the letter given is a dot, and the scale says how far it reaches", () => {
  const series = ["A", "C"].map((name) => ({ name, said: name, colour: 0, dashed: false }));
  const given = { "0.0.places": [11, 12], "0.0.values": [NaN, 4], "0.1.places": [11, 12], "0.1.values": [-4, NaN] };
  const scene = drawn([{ form: "cells", ends: [-4, 4], series }], given);
  assert.deepEqual(saidIn(scene), [["C 12>A 4.000"], ["A 11>C −4.000"]]);
  const cells = scene.items.filter(({ kind, height }) => kind === "box" && height === 28);
  const boxes = cells.map(({ x, colour }) => [x, colour]);
  assert.deepEqual(boxes, [[66, "rgb(214,108,34)"], [46, "rgb(56,118,190)"]]);
  assert.deepEqual(scene.items.filter(({ kind }) => kind === "dot").map(({ x }) => x).slice(0, 2), [56, 76]);
  const texts = scene.items.filter(({ kind }) => kind === "text").map(({ text }) => text);
  for (const text of ["nats", "−4", "+4", "given", "letters", "15"]) assert.ok(texts.includes(text), text);
});

test("exons are boxes on a line, cut at the ends of the axis", () => {
  const boxes = [[
    { first: 5, last: 12, name: "one" }, { first: 15, last: 16, name: "two" }, { first: 30, last: 40, name: "three" },
  ]];
  const scene = drawn([{ form: "boxes", boxes }]);
  const exons = scene.items.filter(({ kind }) => kind === "box");
  assert.deepEqual(exons.map(({ x, width }) => [x, width]), [[46, 40], [126, 40]]);
  const line = scene.items.find(({ kind }) => kind === "rule");
  assert.deepEqual([line.x0, line.x1], [56, 236]);
  assert.deepEqual(saidIn(scene), [["one", "two"]]);
});

test("a span is framed in every track, and names of spans that touch stand apart", () => {
  const series = [{ name: "3", said: "of 3", colour: 0, dashed: false }];
  const tracks = [{ form: "bars", series }, { form: "cells", series }];
  const arrays = { "0.0.places": [], "0.0.values": [], "1.0.places": [], "1.0.values": [] };
  const spans = [
    { first: 13, last: 14, name: "donor" },
    { first: 11, last: 12, name: "acceptor" },
    { first: 18, last: 18, name: "alone" },
  ];
  const names = spans.map(({ name }) => name);
  for (const [axis, expected] of [
    [AXIS, [["donor", "left", 89], ["acceptor", "right", 83], ["alone", "center", 196]]],
    [{ ...AXIS, first: 20, last: 11 }, [["donor", "right", 203], ["acceptor", "left", 209], ["alone", "center", 96]]],
  ]) {
    const { items } = drawn(tracks, arrays, { spans, axis });
    assert.equal(items.filter(({ kind }) => kind === "frame").length, 6);
    const found = items.filter(({ text }) => names.includes(text));
    assert.deepEqual(found.map(({ text, align, x }) => [text, align, x]), expected);
  }
});

test("letters stand in one line where each has room, in two where two have, and are numbered alone where not", () => {
  const linesOf = (last) => {
    const axis = { first: 1, last, title: "", letters: "G".repeat(last) };
    const { items } = drawn([{ form: "boxes" }], {}, { axis });
    const written = items.filter(({ text }) => text === "G");
    return [written.length, new Set(written.map(({ y }) => y)).size];
  };
  assert.deepEqual([20, 40, 60].map(linesOf), [[20, 1], [40, 2], [0, 0]]);
});
