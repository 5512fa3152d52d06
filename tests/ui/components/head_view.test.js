// The head view's numbers, choices and sentences, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { adopt, focusOf, forget, newChoices, shownHeads } from "../../../transformer/plots/canvas/head_view/choices.js";
import { dotted, bars, besideWhich, ends, layout, mean, nearest, strongest } from "../../../transformer/plots/canvas/shared/lines.js";
import { MASKED } from "../../../transformer/plots/canvas/shared/cells.js";
import { printable } from "../../../transformer/plots/canvas/shared/scene.js";
import { footer, numberText, readout } from "../../../transformer/plots/canvas/head_view/sentences.js";

const SHAPE = [2, 3, 2]; // heads, queries, keys
const WEIGHTS = new Float32Array([0.5, 0.25, MASKED, 0.75, NaN, 0, 0.125, 1, 0.5, 0.25, 0.0625, 0.5]);
const BOTH = [0, 1];

test("the strongest lines come weakest first, with all that there are counted and NaN apart", () => {
  const found = strongest(WEIGHTS, SHAPE, BOTH, 0, null, 3);
  assert.deepEqual(found.lines.map((line) => line.weight), [0.5, 0.75, 1]);
  assert.deepEqual(found.lines.at(-1), { head: 1, query: 0, key: 1, weight: 1 });
  assert.deepEqual(found.nan, [{ head: 0, query: 2, key: 0, weight: NaN }]);
  assert.equal(found.total, 9);
});

test("a threshold counts as enough, a head that is off and other tokens do not count", () => {
  const weights = (...rest) => strongest(WEIGHTS, SHAPE, ...rest, 100).lines.map((line) => line.weight);
  assert.deepEqual(weights(BOTH, 0.5, null), [0.5, 0.5, 0.5, 0.75, 1]);
  assert.deepEqual(weights([1], 0.5, null), [0.5, 0.5, 1]);
  assert.deepEqual(weights(BOTH, 0, { side: "query", index: 1 }), [0.25, 0.5, 0.75]);
  assert.deepEqual(weights(BOTH, 0, { side: "key", index: 0 }), [0.0625, 0.125, 0.5, 0.5]);
  assert.deepEqual(weights([], 0, null), []);
});

test("many lines are cut where the weights are cut", () => {
  const many = Float32Array.from({ length: 5000 }, (_, index) => (((index * 7919) % 5000) + 1) / 5000);
  for (const cap of [1, 10, 2000, 5000, 6000]) {
    const { lines, total } = strongest(many, [1, 50, 100], [0], 0, null, cap);
    const expected = [...many].sort((a, b) => a - b).slice(-cap);
    assert.deepEqual(lines.map((line) => line.weight), expected);
    assert.equal(total, 5000);
    assert.ok(lines.every((line) => many[line.query * 100 + line.key] === line.weight));
  }
});

test("the mean is that of the heads shown, and of a masked pair there is none", () => {
  assert.equal(mean(WEIGHTS, SHAPE, BOTH, 0, 1), 0.625);
  assert.equal(mean(WEIGHTS, SHAPE, [1], 0, 1), 1);
  assert.equal(mean(WEIGHTS, SHAPE, BOTH, 1, 0), null);
  assert.ok(Number.isNaN(mean(WEIGHTS, SHAPE, BOTH, 2, 0)));
  assert.equal(mean(WEIGHTS, SHAPE, [], 0, 0), null);
});

test("the nearest line is found within reach and between the columns, the stronger of two that cross", () => {
  const measures = { left: 100, right: 300, lanes: new Map([[0, 0]]), beside: 0 };
  const weak = { head: 0, query: 0, key: 1, weight: 0.1 };
  const strong = { head: 0, query: 1, key: 0, weight: 0.9 };
  const near = (x, y) => nearest([weak, strong], x, y, measures);
  assert.equal(near(110, 12), weak);
  assert.equal(near(110, 36), strong);
  assert.equal(near(200, 24), strong);
  assert.equal(near(290, 12), strong);
  assert.equal(near(110, 24), null);
  assert.equal(near(100, 12), null);
  assert.equal(near(300, 36), null);
});

test("heads have lanes of their own, bars only where there is room", () => {
  const { lanes, bars: room } = layout(800, 3, [0, 2], 50);
  assert.deepEqual([...lanes], [[0, -1.5], [2, 1.5]]);
  assert.equal(room, 18);
  assert.equal(layout(500, 3, [0], 50).bars, 0);
  assert.equal(layout(800, 25, [0], 50).bars, 0);
});

test("a single query stands beside the key that it looks at most, several begin at the top", () => {
  const decision = new Float32Array([0.1, 0.2, 0.3, 0.4, 0.1, 0.6, 0.2, 0.1]); // two heads, four keys
  assert.equal(besideWhich(decision, [2, 1, 4]), 1);
  assert.equal(besideWhich(WEIGHTS, SHAPE), 0);
  const { lanes, beside } = layout(800, 1, [0], 50, 2);
  assert.deepEqual(ends({ head: 0, query: 0, key: 3, weight: 1 }, { lanes, beside }), [60, 84]);
});

test("a bar a head stands beside each token across from the one in focus", () => {
  const measures = layout(800, 2, BOTH, 50);
  const drawn = bars(WEIGHTS, SHAPE, BOTH, { side: "key", index: 1 }, measures, { dark: false, border: "grey" });
  assert.equal(drawn.filter((bar) => bar.colour === "grey").length, 3, "a line under each query's bars");
  const heights = drawn.filter((bar) => bar.colour !== "grey").map((bar) => bar.height / 18);
  assert.deepEqual(heights, [0.25, 1, 0.75, 0.25, 0.5]);
});

test("Python's word counts when it is news; the same again leaves what was chosen here", () => {
  const choices = newChoices();
  const said = { active: null, selected_pair: null, threshold: 0 };
  adopt(choices, said, 3);
  assert.deepEqual(choices.active, [0, 1, 2]);
  choices.active = [1];
  choices.pair = [0, 1];
  adopt(choices, { ...said, threshold: 0.5 }, 3);
  assert.deepEqual([choices.active, choices.pair, choices.threshold], [[1], [0, 1], 0.5]);
  choices.telling = 1;
  adopt(choices, { active: [0, 2], selected_pair: [2, 2], threshold: 0 }, 2);
  assert.deepEqual([choices.active, choices.pair, choices.telling], [[0], [2, 2], 0]);
  adopt(choices, { active: [0, 2], selected_pair: null, threshold: 0 }, 2);
  assert.equal(choices.pair, null);
});

test("with new tokens only the threshold stays, and Python's word is news again", () => {
  const choices = newChoices();
  adopt(choices, { active: [1], selected_pair: [0, 0], threshold: 0.5 }, 3);
  choices.locked = { side: "key", index: 1 };
  forget(choices);
  assert.deepEqual([choices.active, choices.pair, choices.locked, choices.threshold], [[], null, null, 0.5]);
  adopt(choices, { active: [1], selected_pair: [0, 0], threshold: 0.5 }, 3);
  assert.deepEqual([choices.active, choices.pair], [[1], [0, 0]]);
});

test("a chip that is pointed at shows its head alone, if that is on", () => {
  assert.deepEqual(shownHeads({ active: [0, 2], previewed: 2 }), [2]);
  assert.deepEqual(shownHeads({ active: [0, 2], previewed: 1 }), [0, 2]);
  assert.deepEqual(shownHeads({ active: [0, 2], previewed: null }), [0, 2]);
});

test("the locked token is in focus before the one pointed at, unless it is gone", () => {
  const [locked, hovered] = [{ side: "query", index: 2 }, { side: "key", index: 1 }];
  assert.equal(focusOf({ locked, hovered }, SHAPE), locked);
  assert.equal(focusOf({ locked: null, hovered }, SHAPE), hovered);
  assert.equal(focusOf({ locked: { side: "query", index: 3 }, hovered: null }, SHAPE), null);
  assert.equal(focusOf({ locked: { side: "key", index: 2 }, hovered: null }, SHAPE), null);
});

test("what XML cannot hold becomes the replacement character", () => {
  assert.equal(printable("a\tb\u0007c\ud800d🙂"), "a\tb\ufffdc\ufffdd🙂");
});

const WORDS = {
  masked: "masked", nan: "NaN", query: "{token} (q{index})", key: "{token} (k{index})",
  pointed: "{pair}: {weight}, {head}", selected: "{pair}: {weight}, {heads}", selected_masked: "{pair}: {weight}",
  mean_of: "mean of {count}", hint: "hint", focus: "{token}.", locked: "{token}!", no_head: "none", lines: "{count} lines",
  one_line: "{count} line", strongest: "{drawn} of {count}", all: "{lines}.", above: "{lines} from {threshold}.",
  opacity: "O", numbers_one: "of {head}", numbers_mean: "of {count}", numbers: "N {numbers}",
  numbers_and_bars: "N {numbers} B", masked_pairs: "M", nan_pairs: "{count} NaN",
  next: "{before} {after}",
};
const HEADER = {
  words: WORDS, shape: SHAPE, heads: ["h0", "h1"], query_labels: ["a", "b", "c"], key_labels: ["x", "y"],
  masked: false,
};

test("a number has three digits and no minus, or a name", () => {
  assert.deepEqual([0.12345, -0, 1, NaN, null].map((weight) => numberText(weight, WORDS)), ["0.123", "0.000", "1.000", "NaN", "masked"]);
});

test("the sentence is about the line pointed at, else the pair, else the token in focus, else a hint", () => {
  const view = { header: HEADER, weights: WEIGHTS, choices: newChoices(), focus: null, pointed: null };
  assert.equal(readout(view, BOTH), "hint");
  view.focus = { side: "key", index: 1 };
  assert.equal(readout(view, BOTH), "y (k1).");
  view.choices.locked = view.focus;
  assert.equal(readout(view, BOTH), "y (k1)!");
  view.choices.pair = [0, 1];
  assert.equal(readout(view, BOTH), "a (q0) → y (k1): 0.625, mean of 2");
  assert.equal(readout(view, [1]), "a (q0) → y (k1): 1.000, h1");
  view.choices.pair = [1, 0];
  assert.equal(readout(view, BOTH), "b (q1) → x (k0): masked");
  view.pointed = { head: 1, query: 2, key: 0, weight: 0.0625 };
  assert.equal(readout(view, BOTH), "c (q2) → x (k0): 0.063, h1");
});

test("the footer says how many lines there are, which are missing, and what marks mean", () => {
  const view = { header: HEADER, choices: newChoices(), focus: null, lines: new Array(2), nan: [], total: 2, measures: { bars: 0 } };
  assert.equal(footer(view, BOTH), "2 lines. O");
  assert.equal(footer({ ...view, total: 1, lines: new Array(1) }, BOTH), "1 line. O");
  assert.equal(footer({ ...view, total: 49152 }, BOTH), "2 of 49,152. O");
  assert.equal(footer({ ...view, choices: { ...view.choices, threshold: 0.5 } }, BOTH), "2 lines from 0.5. O");
  const focus = { side: "key", index: 0 };
  assert.equal(footer({ ...view, focus }, BOTH), "2 lines. O N of 2");
  assert.equal(footer({ ...view, focus, measures: { bars: 9 } }, [1]), "2 lines. O N of h1 B");
  const header = { ...HEADER, masked: true };
  assert.equal(footer({ ...view, header, nan: new Array(1234) }, BOTH), "2 lines. O M 1,234 NaN");
  assert.equal(footer(view, []), "none");
});

test("a dotted line leads to the key that decides, where the one head that is on looks at another one most", () => {
  const weights = new Float32Array([0.9, 0.1, 0, 0.2, 0.8, 0, 0.1, 0.2, 0.7]);
  const decided = [[0, 2], [2, 1.5], [-1, 0.3]];
  const measures = layout(600, 1, [0], 40);
  const theme = { text: "ink", primary: "lit", dark: false };
  const found = (active, focus = null) => dotted(decided, weights, [1, 3, 3], active, focus, measures, theme);
  assert.deepEqual(found([0]).map(({ y0, y1, colour }) => [y0, y1, colour]), [[36, 60, "ink"]]);
  assert.equal(found([0, 1]).length, 0);
  assert.equal(found([0], { side: "key", index: 0 }).length, 0);
  assert.equal(found([0], { side: "query", index: 1 }).length, 1);
});
