// The map's layout and numbers: what its scripts work out, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { cornerOf, headAt, pictureRow } from "../../../ui/components/map/heads.js";
import { bandOf, layoutOf, NARROW, STREAM, streamOf, wordsOf } from "../../../ui/components/map/layout.js";
import { sumAt, sureAt, valueAt } from "../../../ui/components/map/numbers.js";

const measure = (text) => 7 * text.length;
const row = (more) => ({
  name: "0.0", layer: 0, boxes: [1], before: [], after: [], sums: [], slim: false, crosses: false, feeds: false,
  ...more,
});
const tower = (rows, stepped = false) => (
  { title: "t", reads: 0, words: ["a", "bb"], attached: [false, false], stepped, rows }
);
const steps = { labels: ["x", "y"], attached: [false, false], next: [[], []], written: true };

test("rows stand from the bottom up in the order in which they run, and none covers another", () => {
  const heads = { shape: [4, 5, 7], queries: 5, keys: 0 };
  const rows = [row({ layer: -1 }), row({ sums: [2], heads }), row({}), row({ layer: 1, slim: true })];
  const { towers, height } = layoutOf({ towers: [tower(rows)], steps }, 500, measure, 0);
  const placed = towers[0].rows;
  for (let i = 1; i < placed.length; i++) assert.ok(placed[i].y + placed[i].height <= placed[i - 1].y);
  assert.ok(placed[0].y + placed[0].height < towers[0].wordsTop);
  assert.ok(towers[0].bottom <= height + 0.1 && placed.at(-1).y > 0);
});

test("two towers stand beside each other with their streams outside, one above the other where it is narrow", () => {
  const both = { towers: [tower([row()]), tower([row()], true)], steps };
  const wide = layoutOf(both, 900, measure, 0);
  assert.ok(wide.beside && wide.towers[0].x + wide.towers[0].width < wide.towers[1].x);
  assert.deepEqual(wide.towers.map(({ mirrored }) => mirrored), [false, true]);
  const narrow = layoutOf(both, NARROW - 1, measure, 0);
  assert.ok(narrow.stacked && narrow.towers[1].bottom < narrow.towers[0].top);
});

test("a stream is parted by the share, and what comes back is as thick as it", () => {
  const boxes = [{ part: 1, x: 50, width: 100 }];
  const placed = { row: row({ sums: [5] }), y: 40, height: 30, boxes, grid: null, read: 70, merge: 40 };
  const path = streamOf({ stream: 10, mirrored: false, rows: [placed], wordsTop: 100, top: 10 }, () => 0.4);
  const narrowest = 10 + STREAM * 0.6;
  assert.ok(path.includes(`${narrowest.toFixed(1)} `));
  const thick = bandOf({ stream: 10, mirrored: false }, placed, 0.4).match(/L([\d.]+) 41/);
  assert.equal(Number(thick[1]), Number((10 + STREAM * 0.6).toFixed(1)));
});

test("words that do not fit show the lines around the step", () => {
  const many = Array.from({ length: 60 }, (_, i) => `w${i}`);
  const shown = wordsOf(many, many.map(() => false), { x: 0, width: 200, mirrored: false }, measure, 55);
  assert.ok(shown.some(({ index }) => index === 55) && !shown.some(({ index }) => index === 0));
  assert.equal(new Set(shown.map(({ y }) => y)).size, 3);
  const dots = shown.filter(({ text }) => text === "…");
  // No word after the last one is hidden.
  assert.deepEqual([dots.length, dots[0], dots[0].index + 1], [1, shown[0], shown[1].index]);
  const first = wordsOf(many, many.map(() => false), { x: 0, width: 200, mirrored: false }, measure, 0);
  assert.deepEqual([first[0].text, first.at(-1).text, first.at(-1).index], ["w0", "…", first.at(-2).index + 1]);
});

test("numbers at a step are those of the step, and means where no step is meant", () => {
  const arrays = { found3: [1, 3], state3: [3, 1], "sure0.1": [2, 7, 0.5, 1, 4, 0.25] };
  assert.deepEqual(sumAt(arrays, 3, 1), { found: 3, state: 1, share: 0.75 });
  assert.deepEqual(sumAt(arrays, 3, -1), { found: 2, state: 2, share: 0.5 });
  assert.equal(sumAt(arrays, 4, 0), null);
  assert.deepEqual(sureAt(arrays, "0.1", 1), { head: 1, key: 4, weight: 0.25 });
  assert.equal(sureAt(arrays, "0.1", -1), null);
  assert.equal(valueAt([2, 4, 9], -1), 5);
  const rowOf = (query) => pictureRow({ shape: [1, 4, 4], queries: 10 }, query);
  assert.deepEqual([0, 2, 3, 9, -1, 10].map(rowOf), [0, 0, 1, 3, null, null]);
});

test("a click finds the head under it, and none between two", () => {
  const grid = { side: 20, gap: 4, x: 0, y: 0, lines: 2, across: 3, each: 20, tall: 44 };
  assert.deepEqual([5, 0, 3].map((head) => cornerOf(grid, head)), [[48, 24], [0, 0], [0, 24]]);
  assert.equal(headAt(grid, 5, 30, 5), 1);
  assert.equal(headAt(grid, 5, 22, 5), null);
  assert.equal(headAt(grid, 5, 50, 30), null);
});
