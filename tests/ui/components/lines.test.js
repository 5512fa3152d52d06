// Lines between words: which are drawn, and what they say, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MASKED } from "../../../transformer/plots/canvas/shared/cells.js";
import { across, chosen, dotted, sceneOf } from "../../../transformer/plots/canvas/lines/scene.js";
import { legend, spoken, timesOf } from "../../../transformer/plots/canvas/lines/spoken.js";

const words = {
  looked: "{word}: {head}: {listed}", from: "{word} < {listed} ({head})", weighted: "{word}={weight}",
  listed: "{before}; {after}", nothing: "{word}: nothing", nobody: "{word}: nobody", solid: "solid {head}",
  dotted: "dotted", agree: "{hits}/{decided}", none: "no word", unknown: "not known", same: "{source} too {times}",
  other: "but {source} {nats}", undecided: "none {times}", decides: "decided {listed}", coloured: "colours",
  above: "from {least}",
};

/** Three written words over four source words; the first may not see the last, the last sees nothing. */
const view = {
  header: {
    shape: [3, 4], head: "h", words,
    key: { texts: ["a", "b", "c", "d"] }, decided: [],
    query: { texts: ["x", "y", "z"], special: [false, false, false] },
  },
  weights: new Float32Array([0.05, 0.9, 0.05, -1, 0.3, 0.25, 0.25, 0.2, -1, -1, -1, -1]),
};

test("what is masked is not looked at, and the strongest comes first", () => {
  assert.deepEqual(across(view, { side: "query", index: 0 }).map(({ index }) => index), [1, 0, 2]);
  assert.deepEqual(across(view, { side: "key", index: 3 }).map(({ index }) => index), [1]);
});

test("a sentence names the words that were looked at most, three at most", () => {
  assert.equal(spoken(view, { side: "query", index: 0 }), "x: h: b=0.90");
  assert.equal(spoken(view, { side: "query", index: 1 }), "y: h: a=0.30; b=0.25; c=0.25");
  assert.equal(spoken(view, { side: "query", index: 2 }), "z: nothing");
});

test("a source word is told who looked at it, and that nobody did", () => {
  assert.equal(spoken(view, { side: "key", index: 1 }), "b < x=0.90; y=0.25 (h)");
  assert.equal(spoken({ ...view, weights: view.weights.map((w) => w / 20) }, { side: "key", index: 1 }), "b: nobody");
});

test("lines are those of the word in focus, above a least weight", () => {
  const ends = (focus) => chosen(view, focus).map(({ query, key }) => `${query}${key}`);
  assert.deepEqual(ends(null), ["00", "02", "13", "11", "12", "10", "01"]);
  assert.deepEqual(ends({ side: "key", index: 1 }), ["11", "01"]);
  assert.deepEqual(ends({ side: "query", index: 2 }), []);
});

test("a line leads from under the source word to above the written one, and grows with its weight", () => {
  const box = (left, top) => ({ left, top, width: 20, height: 30 });
  const key = [10, 60, 110, 160].map((left) => box(left, 0));
  const boxes = { key, query: [100, 150, 200].map((left) => box(left, 130)) };
  const drawn = (focus) => sceneOf({ ...view, focus, boxes, theme: { primary: "lit", text: "ink" } });
  const strong = drawn(null).at(-1); // from b to x, of weight 0.9
  assert.deepEqual([strong.x0, strong.y0, strong.x1, strong.y1, strong.colour], [70, 30, 110, 130, "lit"]);
  assert.ok(strong.width > drawn(null)[0].width);
  assert.ok(strong.alpha < drawn({ side: "query", index: 0 }).at(-1).alpha);
});

/** The first word is decided by what it looks at, the second by another word, the third by none. */
const known = { ...view, header: { ...view.header, decided: [[1, 2.5], [3, 1.5], [-1, 0.25]] } };

test("a dotted line leads to the word that decided, where that is another one than was looked at most", () => {
  const ends = (focus) => dotted(known, focus).map(({ query, key }) => `${query}${key}`);
  assert.deepEqual(ends(null), ["13"]);
  assert.deepEqual(ends({ side: "query", index: 0 }), []);
  assert.deepEqual(ends({ side: "key", index: 3 }), ["13"]);
  assert.deepEqual(dotted(view, null), []);
});

test("the legend says of how many decided words the head looked at the right one, where that is known", () => {
  const asked = (decided) => legend({ ...view, header: { ...view.header, asked: true, decided } });
  assert.equal(asked(known.header.decided), "solid h dotted 1/2");
  assert.equal(asked([[-1, 0.25]]), "solid h no word");
  assert.equal(asked([]), "solid h not known");
  assert.equal(legend(view), "solid h");
});

test("a word says what decided it: the word it looked at, another one, or none", () => {
  assert.equal(spoken(known, { side: "query", index: 0 }), "x: h: b=0.90 b too 12");
  assert.equal(spoken(known, { side: "query", index: 1 }), "y: h: a=0.30; b=0.25; c=0.25 but d 1.50");
  assert.equal(spoken(known, { side: "query", index: 2 }), "z: nothing none 1.3");
  assert.equal(spoken(known, { side: "key", index: 3 }), "d < y=0.20 (h) decided y");
});

test("nats are told as how many times less likely a word becomes", () => {
  assert.deepEqual([0, -1, 1, Math.log(30), 14].map(timesOf), ["1.0", "1.0", "2.7", "30", "1,200,000"]);
});

test("of a long sentence only strong lines are drawn, until a word is in focus", () => {
  const weights = new Float32Array(30 * 2).map((_, at) => (at % 2 ? 0.2 : 0.8));
  const long = { weights, header: { ...view.header, shape: [30, 2] } };
  assert.equal(chosen(long, null).length, 30);
  assert.equal(chosen(long, { side: "query", index: 3 }).length, 2);
});

test("of several heads each has lines of its own colour, the strongest last, all in lanes, and no dotted one", () => {
  const all = new Float32Array([0.5, 0.25, MASKED, 0.75, NaN, 0, 0.125, 1, 0.5, 0.25, 0.0625, 0.5]); // 2 heads, 3 x 2
  const header = { ...view.header, shape: [3, 2], decided: [[1, 2], [1, 2], [1, 2]] };
  const box = (left, top) => ({ left, top, width: 20, height: 24 });
  const boxes = { key: [0, 24].map((top) => box(200, top)), query: [0, 24, 48].map((top) => box(0, top)) };
  const theme = { primary: "lit", text: "ink", dark: false };
  const several = { ...view, all, columns: true, header, boxes, focus: null, theme };
  const lines = chosen(several, null);
  assert.deepEqual(lines.map(({ weight }) => weight), [NaN, 0.0625, 0.125, 0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 1]);
  assert.deepEqual(lines.at(-1), { head: 1, query: 0, key: 1, weight: 1 });
  const first = chosen(several, { side: "key", index: 0 });
  assert.deepEqual(first.map(({ weight }) => weight), [NaN, 0.0625, 0.125, 0.5, 0.5]);
  const drawn = sceneOf(several);
  assert.equal(drawn.length, 10);
  assert.deepEqual([drawn[0].dash, drawn[1].dash], [[4, 4], null]);
  assert.equal(new Set(drawn.slice(1).map(({ colour }) => colour)).size, 2);
  const last = drawn.at(-1); // of the second head, which lies lower at both of its ends
  assert.deepEqual([last.x0, last.y0, last.x1, last.y1], [20, 15.5, 200, 39.5]);
  assert.equal(legend(several), "colours from 0.04");
});

test("of very many lines the strongest are drawn", () => {
  const weights = Float32Array.from({ length: 5000 }, (_, index) => 0.1 + ((index * 7919) % 5000) / 6000);
  const lines = chosen({ weights, header: { ...view.header, shape: [20, 250] } }, null);
  assert.deepEqual(lines.map(({ weight }) => weight), [...weights].sort((a, b) => a - b).slice(-1500));
});
