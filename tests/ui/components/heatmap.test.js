// The heatmap of long maps: how the window zooms and moves, which block a pixel shows, and what is said of it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { along, blockAt, marked, MASKED, paint, weightAt } from "../../../transformer/plots/canvas/shared/cells.js";
import { told } from "../../../transformer/plots/canvas/heatmap/heatmap.js";
import { rounded } from "../../../transformer/plots/canvas/shared/words.js";
import { scaleOf } from "../../../transformer/plots/canvas/heatmap/scene.js";
import {
  panned, seen, settled, showing, spoken, ticks, zoomed,
} from "../../../transformer/plots/canvas/heatmap/zoom.js";

const SHAPE = [1000, 700];

test("what is under the pointer stays there, and the window stays inside", () => {
  assert.deepEqual(zoomed([0, 1000, 0, 700], SHAPE, 2, 0.5, 0.5), [250, 750, 175, 525]);
  assert.deepEqual(zoomed([0, 1000, 0, 700], SHAPE, 4, 1, 0), [0, 250, 525, 700]);
  assert.deepEqual(zoomed([250, 750, 175, 525], SHAPE, 0.1, 0.3, 0.9), [0, 1000, 0, 700]);
  assert.deepEqual(zoomed([8, 12, 9, 13], SHAPE, 8, 0.5, 0.5), [8, 12, 9, 13]); // four cells are near enough
  assert.deepEqual(zoomed([0, 1, 0, 700], [1, 700], 2, 0, 0.5), [0, 1, 0, 350]); // one row stays one
});

test("it moves up to the edges, and as little as it takes to show a cell", () => {
  assert.deepEqual(panned([10, 110, 20, 90], SHAPE, -50, 5), [0, 100, 25, 95]);
  assert.deepEqual(panned([10, 110, 20, 90], SHAPE, 5000, 5000), [900, 1000, 630, 700]);
  assert.deepEqual(showing([10, 110, 20, 90], SHAPE, [110, 19]), [11, 111, 19, 89]);
  assert.deepEqual(showing([10, 110, 20, 90], SHAPE, [50, 50]), [10, 110, 20, 90]);
  assert.deepEqual(settled([9.7, 110.2, 0, 699.9999999], SHAPE), [9, 111, 0, 700]);
});

test("ticks are round numbers, and the first cell is one", () => {
  assert.deepEqual(ticks(0, 1000, 500, 100).map((index) => index + 1), [1, 200, 400, 600, 800, 1000]);
  assert.deepEqual(ticks(996, 1004, 400, 30).map((index) => index + 1), [997, 998, 999, 1000, 1001, 1002, 1003, 1004]);
  assert.deepEqual(ticks(0, 0.5, 100, 30), []);
});

/** The whole in blocks of 2 x 3 cells, and over it the cells of rows 2 to 4 and columns 3 to 5, which have names. */
const whole = {
  rows: [0, 5], columns: [0, 7], tall: 2, wide: 3,
  codes: new Uint8Array([0, 127, 3, 4, 254, 6, 7, 255, 9]),
};
const part = {
  rows: [2, 4], columns: [3, 5], tall: 1, wide: 1,
  values: new Float32Array([0.25, MASKED, 0, 0.5]), queries: ["q2", "q3"], keys: ["k3", "k4"],
};

test("a pixel shows the cell under it: of the part where there is one, else the block of the whole", () => {
  assert.deepEqual([...along(5, 0, 10, [2, 8], 2)], [-1, 0, 1, 2, -1]);
  const code = (weight) => (weight === MASKED ? 0 : Math.round(100 * weight) + 1);
  const look = { pixelOf: (weight) => (Number.isNaN(weight) ? 2000 : code(weight)), masked: 255, hatch: 1000 };
  const pixels = new Uint32Array(35);
  paint(pixels, 7, 5, [0, 5, 0, 7], [whole, part], 0.5, look);
  assert.deepEqual([...pixels.slice(0, 7)], [1, 1, 1, 14, 14, 14, 1]);
  assert.deepEqual([...pixels.slice(17, 19)], [26, 255]); // the part, whose second cell is masked
  assert.deepEqual([...pixels.slice(28, 35)], [1, 1, 1, 255, 1000, 255, 1]); // hidden cells are hatched
  paint(pixels, 7, 5, [0, 5, 0, 7], [{ ...whole, nan: new Uint8Array([64, 0]) }], 0.5, look);
  assert.deepEqual([...pixels.slice(0, 7)], [1, 1, 1, 2000, 2000, 2000, 1]);
  assert.deepEqual(marked([whole]), { masked: true, nan: false });
  assert.deepEqual(marked([{ ...part, values: new Float32Array([NaN, 0, 0, 0]) }]), { masked: false, nan: true });
});

const words = {
  named: "{place}={name}", cell: "{query_axis} {query} {key_axis} {key}: {weight}", block: "{query} {key} <= {weight}",
  cell_about: "{query} {key} ~ {weight}", masked: "hidden", nan: "nan", shown: "{first_row}-{last_row}",
  blocks: "{tall}x{wide}", cells: "cells",
};
const header = { words, largest: 0.5, axis: { queries: "q", keys: "k" }, shape: [5, 7], long: true };

test("a cell is said exactly, by its names; a block by what it covers and its largest", () => {
  const view = { header, layers: [whole, part], window: [0, 5, 0, 7] };
  assert.equal(spoken(view, [2, 3]), "q 3=q2 k 4=k3: 0.25");
  assert.equal(spoken(view, [2, 4]), "q 3=q2 k 5=k4: hidden");
  assert.equal(spoken(view, [0, 3]), "1–2 4–6 <= 0.13");
  assert.equal(spoken(view, [4, 6]), "5 7 ~ 0.00063");
  assert.equal(spoken(view, [99, 0]), "");
  assert.equal(seen({ ...view, layers: [whole] }), "1-5 2x3");
  assert.equal(seen(view), "1-5 cells");
});

test("codes are square roots of shares of the largest", () => {
  const [last, middle] = [{ codes: new Uint8Array([254, 127, 255]) }, 0.125];
  assert.deepEqual([0, 1, 2].map((at) => weightAt(last, at, 0.5)), [0.5, middle, MASKED]);
  assert.deepEqual(blockAt([whole], 0.5, [3, 4])?.rows, [2, 4]);
  assert.equal(rounded(0.123456789, 6), "0.123457");
});

test("a scale begins at 0 and ends at 1, at the largest if it is relative, and has 0 in its middle otherwise", () => {
  const layers = [{ values: new Float32Array([-0.25, 0.125, MASKED, NaN]) }];
  const of = (/** @type {object} */ one) => scaleOf({ layers, header: {}, relative: false, ...one });
  assert.deepEqual(of({}), { largest: 0.125, end: 1 });
  assert.deepEqual(of({ relative: true }), { largest: 0.125, end: 0.125 });
  assert.deepEqual(of({ header: { centred: true } }), { largest: 0.25, end: 0.25 });
  assert.deepEqual(of({ header: { centred: true, end: 0.5 } }), { largest: 0.25, end: 0.5 });
  assert.deepEqual(of({ relative: true, layers: [{ values: new Float32Array(2) }] }), { largest: 0, end: 1 });
});

test("the cell that is said is the one of its query and key, where there are more keys than queries", () => {
  const axis = (texts) => ({ texts, labels: texts });
  const axes = { queries: axis(["a", "b"]), keys: axis(["x", "y", "z"]) };
  const said = { told: "{query} {key} {value}", masked: "masked", nan: "no number", marks: "marked" };
  const view = {
    header: { ...axes, words: said, axis: { queries: "query", keys: "key" } },
    layers: [{ values: new Float32Array([0.1, 0.2, 0.3, 0.4, MASKED, NaN]) }],
    pair: [1, 0],
  };
  const cells = [[0, 2], [1, 0], [1, 1], [1, 2]];
  const texts = cells.map((cell) => told(view, cell));
  assert.deepEqual(texts, ["a z 0.300", "b x 0.400 marked", "b y masked", "b z no number"]);
});
