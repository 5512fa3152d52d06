// Thumbnails, alignments and matrices: what their scripts work out, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { spoken } from "../../../ui/components/alignments/alignments.js";
import { sceneOf, sizeOf } from "../../../ui/components/alignments/scene.js";
import { aspect, cellSide } from "../../../transformer/plots/canvas/all_heads/all_heads.js";
import { MASKED, marked, strongestOf, valuesOf, wholeOf } from "../../../transformer/plots/canvas/shared/cells.js";
import { cellAt, elision, partsOf, spoken as spokenSymbol, zoomFor } from "../../../ui/components/matrices/scene.js";
import { moved } from "../../../transformer/plots/canvas/shared/grid.js";
import { written } from "../../../transformer/plots/canvas/shared/words.js";

test("a thumbnail's cells are whole pixels, and never none", () => {
  assert.equal(cellSide(11, 7, 96), 8);
  assert.equal(cellSide(7, 12, 96), 8);
  assert.equal(cellSide(97, 1, 96), 1);
});

test("a thumbnail is as wide as its numbers are, up to twice", () => {
  assert.deepEqual([[10, 10], [10, 15], [10, 30], [30, 10]].map(([q, k]) => aspect([1, 1, q, k])), [1, 1.5, 2, 0.5]);
});

test("codes of thumbnails are weights, masked or no numbers, and only marks that occur are found", () => {
  assert.deepEqual([...valuesOf(new Uint8Array([0, 127, 254, 255]))], [0, 0.5, 1, MASKED]);
  assert.deepEqual([...valuesOf(new Uint8Array([0, 255, 0]), new Uint8Array([0b00100000]))], [0, MASKED, NaN]);
  const found = (codes, nan) => marked([wholeOf(valuesOf(new Uint8Array(codes), nan), 1, 2)]);
  assert.deepEqual(found([0, 254]), { masked: false, nan: false });
  assert.deepEqual(found([0, 255], new Uint8Array([128])), { masked: true, nan: true });
});

const VIEW = {
  moment: 0,
  header: {
    columns: ["a", "b", "c", "d", "e"],
    same_rows: true,
    moments: [{ panels: ["M1", "M2"].map((title) => ({ title, rows: ["u", "v"], decided: [] })) }],
    words: {
      looks: "{word} > {looked}", compared: "{word} >> {looked}", told: "{title}: {looked}",
      weighted: "{word}={weight}", listed: "{before}, {after}", beside: "{before} | {after}", nothing: "-",
    },
  },
  arrays: {
    "0.0": new Float32Array([1, 0, 0, 0, 0, 0.3, 0.1, 0.05, 0.45, 0.1]),
    "0.1": new Float32Array([1, 0, 0, 0, 0, 0.04, 0.04, MASKED, NaN, 0.04]),
  },
};

test("the three strongest source words are told, in each panel, or that there is none", () => {
  assert.equal(spoken(VIEW, { panel: 0, row: 1 }), "v >> M1: d=0.45, a=0.30, b=0.10 | M2: -");
  const apart = { ...VIEW, header: { ...VIEW.header, same_rows: false } };
  assert.equal(spoken(apart, { panel: 1, row: 0 }), "u > a=1.00");
});

test("the strongest is the first of equals", () => {
  assert.deepEqual([[1], [0, 2, 2], [3, 1], [-1, -1]].map(strongestOf), [0, 1, 0, 0]);
});

test("an alignment is a scene: a box a cell, its words, the row in focus, a ring where another word decided", () => {
  const layout = { abreast: 1, left: 30, top: 20, cell: 5, tall: 10, upright: true };
  const theme = { text: "ink", primary: "lit", masked: [1, 2, 3], hatch: [4, 5, 6] };
  const drawn = {
    rows: ["u", "v"], columns: ["a", "b", "c"], decided: [[0], [2]],
    weights: new Float32Array([1, 0, MASKED, 0.9, 0, 0.1]), layout, theme,
    focused: 1, looked: new Float32Array([0.9, 0, 0.1]),
  };
  const items = sceneOf(drawn);
  const cells = items.filter(({ kind, height }) => kind === "box" && height === 10);
  assert.deepEqual(cells.map(({ x, y }) => [x, y]), [[30, 20], [35, 20], [40, 20], [30, 30], [35, 30], [40, 30]]);
  assert.equal(cells[2].colour, "rgb(1,2,3)");
  const texts = items.filter(({ kind }) => kind === "text").map(({ text, bold }) => [text, bold]);
  assert.deepEqual(texts, [["u", false], ["v", true], ["a", true]]);
  const frames = items.filter(({ kind, colour }) => kind === "frame" && colour !== "#000000");
  const expected = [[30.5, 20.5, "#ffffff"], [40.5, 20.5, "#ffffff"], [30, 30, "#ffffff"], [40.5, 33, "#ffb26b"]];
  assert.deepEqual(frames.map(({ x, y, colour }) => [x, y, colour]), expected);
  assert.deepEqual(sizeOf(layout, 2, 3), { wide: 49, tall: 54 });
});

const DRAWN = {
  matrix: { rows: ["r1", "r2"], columns: ["c1", "c2", "c3"] },
  shape: { left: 50, top: 20, width: 10, height: 5, rowsAt: [0, 1], columnsAt: [0, 1, 2] },
};

test("a cell is found by its point, and none beside the cells", () => {
  assert.deepEqual(cellAt(DRAWN, 50, 20), [0, 0]);
  assert.deepEqual(cellAt(DRAWN, 79.9, 29.9), [1, 2]);
  for (const [x, y] of [[49, 20], [50, 19], [80, 20], [50, 30]]) assert.equal(cellAt(DRAWN, x, y), null);
});

test("what is left out has no cells, and what is looked at is not left out", () => {
  assert.deepEqual(elision(5, 24, []), [0, 1, 2, 3, 4]);
  assert.deepEqual(elision(128, 24, []), [0, 1, 2, 3, -1, 127]);
  assert.deepEqual(elision(128, 24, [64]), [0, 1, 2, 3, -1, 63, 64, 65, -1, 127]);
  const shape = { left: 0, top: 0, width: 10, height: 5, rowsAt: [0], columnsAt: [0, -1, 127] };
  assert.deepEqual([5, 15, 25].map((x) => cellAt({ shape }, x, 2)), [[0, 0], null, [0, 127]]);
});

test("matrices grow until they fill the width, or the window's height", () => {
  const shapes = [{ wide: 100, tall: 100 }, { wide: 174, tall: 100 }];
  assert.equal(zoomFor(shapes, 200, 800), 1);
  assert.ok(Math.abs(zoomFor(shapes, 450, 800) - 1.485) < 1e-9);
  assert.equal(zoomFor(shapes, 3000, 8000), 1.8);
  assert.ok(zoomFor(shapes, 3000, 200) < 1.25);
});

test("keys move among the cells and stop at the edges", () => {
  const to = (key, row, column, ctrlKey = false) => moved({ key, ctrlKey }, [row, column], 2, 3);
  const within = [to("ArrowUp", 0, 1), to("ArrowDown", 1, 1), to("ArrowLeft", 1, 0), to("ArrowRight", 0, 2)];
  assert.deepEqual(within, [[0, 1], [1, 1], [1, 0], [0, 2]]);
  const led = [to("ArrowUp", 1, 1), to("ArrowDown", 0, 1), to("ArrowLeft", 1, 2), to("ArrowRight", 0, 1)];
  assert.deepEqual(led, [[0, 1], [1, 1], [1, 1], [0, 2]]);
  assert.deepEqual([to("Home", 1, 2), to("End", 1, 0), to("Tab", 0, 0)], [[1, 0], [1, 2], undefined]);
  assert.deepEqual([to("Home", 1, 2, true), to("End", 0, 0, true)], [[0, 0], [1, 2]]);
  const far = (key) => moved({ key }, [5, 5], 8, 20, 4, 10);
  assert.deepEqual(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].map(far), [[1, 5], [7, 5], [5, 0], [5, 15]]);
});

test("numbers are written short, with a true minus, and zero has none", () => {
  const text = (value, digits = 2) => written(value, digits, "undefined");
  const numbers = [0.5, -0.25, -0.001, 12345, -1e6];
  assert.deepEqual(numbers.map((value) => text(value)), ["0.50", "−0.25", "0.00", "12345.00", "−1e6"]);
  assert.deepEqual([NaN, Infinity, -Infinity].map((value) => text(value)), ["undefined", "∞", "−∞"]);
  assert.equal(text(1e-4, 4), "0.0001");
});

test("one letter after ^ or _ is raised or lowered, the rest stays on the line", () => {
  const short = (symbol) => partsOf(symbol).map(({ text, level }) => `${["v", "", "^"][level + 1]}${text}`);
  assert.deepEqual(short("W^Q_0"), ["W", "^Q", "v0"]);
  assert.deepEqual(short("S_0 / √2"), ["S", "v0", " / √2"]);
  assert.deepEqual(short("E + P"), ["E + P"]);
  assert.deepEqual(short("a_"), ["a", "_"]);
  assert.equal(spokenSymbol("W^Q_0"), "W Q 0");
});
