// What an address means for the page's record, and what the browser's own drawing makes of it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { local as grid, pairIn } from "../../../transformer/plots/canvas/all_heads/local.js";
import { MASKED } from "../../../transformer/plots/canvas/shared/cells.js";
import { local as bitext } from "../../../ui/components/bitext/local.js";
import { local as lines } from "../../../transformer/plots/canvas/head_view/local.js";
import { addressOf, choiceOf, pairOf, weightsOf } from "../../../transformer/plots/canvas/shared/local.js";

const axis = (...labels) => ({ name: "words", labels, texts: labels });

/** Two kinds of two layers and three heads: 2 queries, and 3 keys or 2. Cell (layer, head, query, key) is known. */
function record() {
  const kind = (name, queries, keys) => {
    const size = queries.labels.length * keys.labels.length;
    const weights = Float32Array.from({ length: 2 * 3 * size }, (_, at) => at / 100);
    return { name, sites: [`${name}.0`, `${name}.1`], heads: 3, queries, keys, weights };
  };
  const kinds = [kind("decoder.cross", axis("ein", "a|b"), axis("one", "two", "b|c")), kind("encoder.self", axis("x", "y"), axis("x", "y"))];
  return { id: "r", kinds, usual: { layer: 1, head: 2 }, old: { Cross: "decoder.cross", "Encoder self": "encoder.self" } };
}

test("an address chooses, and what it cannot mean is as if it were not there", () => {
  const one = record();
  const usual = choiceOf({}, one);
  assert.deepEqual([usual.kind.name, usual.layer, usual.head, usual.threshold], ["decoder.cross", 1, 2, 0.05]);
  const asked = choiceOf({ kind: "Encoder self", layer: "0", head: "mean", threshold: "0.2", relative: "True" }, one);
  assert.deepEqual([asked.kind.name, asked.layer, asked.head, asked.threshold, asked.relative], ["encoder.self", 0, null, 0.2, true]);
  const wrong = { kind: "constructor", layer: "2", head: "-1", threshold: "0.51", heads: "0,7", pair: "9-9999999", relative: "yes" };
  assert.deepEqual(choiceOf(wrong, one), usual);
  for (const threshold of ["", ".", "1e-1", "0x1", "NaN"]) assert.equal(choiceOf({ threshold }, one).threshold, 0.05);
});

test("an address says what differs from the defaults, and says it again as it was read", () => {
  const one = record();
  assert.deepEqual(addressOf(choiceOf({ kind: "Cross", layer: "1", head: "2", heads: "2", threshold: "0.050" }, one), one), {});
  const said = { kind: "encoder.self", layer: "0", head: "0", pair: "encoder.self:x|y", heads: "0,2", threshold: "0.3", relative: "true" };
  assert.deepEqual(addressOf(choiceOf(said, one), one), said);
  assert.deepEqual(addressOf(choiceOf({ heads: "none", pair: "1-0" }, one), one), { heads: "none", pair: "decoder.cross:a|b|one" });
});

/** The same with names for layers that tell the kind too: two numbers, and one word for the place that is shown at first. */
function named() {
  const one = record();
  const [numbered, alone] = [one.kinds[1], one.kinds[0]];
  const single = { ...alone, name: "pooling", sites: ["pooling"], layers: ["pooling"], weights: alone.weights.slice(0, alone.weights.length / 2) };
  return { ...one, kinds: [{ ...numbered, layers: ["0", "1"] }, single], usual: { kind: 1, layer: 0, head: null }, old: {} };
}

test("the name of a layer tells the kind, and the mean may be what is shown at first", () => {
  const one = named();
  const said = (values) => addressOf(choiceOf(values, one), one);
  const usual = choiceOf({}, one);
  assert.deepEqual([usual.kind.name, usual.layer, usual.head], ["pooling", 0, null]);
  for (const nothing of [{ layer: "pooling", head: "mean" }, { layer: "2", head: "3" }, { kind: "encoder.self", layer: "x" }]) assert.ok(!said(nothing).layer);
  assert.deepEqual(said({ layer: "pooling", head: "mean" }), {});
  const asked = choiceOf({ layer: "1", head: "0" }, one);
  assert.deepEqual([asked.kind.name, asked.layer, asked.head], ["encoder.self", 1, 0]);
  assert.deepEqual([said({ layer: "1", head: "0" }), said({ layer: "0" })], [{ layer: "1", head: "0" }, { layer: "0" }]);
});

test("a grid of all kinds has numbers of its own, and a pick in it names the layer", () => {
  const one = named();
  const header = { places: [[0, 0], [0, 1], [1, 0]] };
  const arrays = { codes: new Uint8Array(1) };
  const at = (values) => grid.seen(header, one, choiceOf(values, one), {}, arrays).options.selected;
  assert.deepEqual([at({ layer: "1", head: "2" }), at({ head: "1" }), at({ layer: "1" })], [[1, 2], [2, 1], null]);
  assert.equal(grid.seen(header, one, choiceOf({}, one), {}, arrays).arrays, arrays);
  const picked = (layer) => grid.acted("picked", { layer, head: 2 }, choiceOf({}, one), one, header);
  assert.deepEqual([picked(1), picked(2)], [{ layer: "1", head: "2", heads: null }, { layer: "pooling", head: "2", heads: null }]);
});

test("a pair is found by its words, which may hold the sign between them, and in its own kind alone", () => {
  const [cross, self] = record().kinds;
  assert.deepEqual(pairOf("decoder.cross:a|b|b|c", cross), [1, 2]);
  assert.equal(pairOf("decoder.cross:a|b|b|c", self), null);
  assert.equal(pairOf("decoder.cross:ein|nobody", cross), null);
  assert.deepEqual([pairOf("1-2", cross), pairOf("1-2", self), pairOf("1-2-0", cross)], [[1, 2], null, null]);
});

test("the mean of a layer's heads hides what they hide", () => {
  const [cross] = record().kinds;
  cross.weights.set([MASKED], 2);
  cross.weights.set([MASKED], 6 + 2);
  cross.weights.set([MASKED], 12 + 2);
  const mean = weightsOf(cross, 0, null);
  assert.deepEqual([...mean].map((one) => one.toFixed(2)), ["0.06", "0.07", "-Infinity", "0.09", "0.10", "0.11"]);
  assert.deepEqual([...weightsOf(cross, 1, 2)].map((one) => one.toFixed(2)), ["0.30", "0.31", "0.32", "0.33", "0.34", "0.35"]);
});

test("thumbnails are the record's own weights of the kind that is looked at", () => {
  const one = record();
  const header = { grids: { "encoder.self": { roles: [] }, "decoder.cross": { size: [1, 1] } } };
  const seen = grid.seen(header, one, choiceOf({ kind: "encoder.self", layer: "0", head: "1" }, one), {}, {});
  assert.equal(seen.arrays.weights, one.kinds[1].weights);
  assert.deepEqual([seen.header.shape, seen.header.rows, seen.options.selected], [[2, 3, 2, 2], ["L0", "L1"], [0, 1]]);
  const sent = { codes: new Uint8Array(6) };
  assert.equal(grid.seen(header, one, choiceOf({ kind: "decoder.cross" }, one), {}, sent).arrays, sent);
});

test("lines between sentences are the chosen head's, of any kind, with what decides each word where that is known", () => {
  const one = record();
  one.kinds[0].decided = [[2, 1.5], [-1, 0.5]];
  const side = (/** @type {string} */ name) => ({ heads: [["a", "b", "c", name], ["d", "e", "f", `${name}1`]], file_names: [[], []] });
  const header = { sides: { "decoder.cross": side("m"), "encoder.self": side("s") } };
  const cross = bitext.seen(header, one, choiceOf({ head: "mean", pair: "decoder.cross:ein|two" }, one));
  assert.deepEqual([cross.header.head, cross.header.decided, cross.options.selected], ["m1", [[2, 1.5], [-1, 0.5]], 0]);
  const self = choiceOf({ kind: "encoder.self", head: "0" }, one);
  const seen = bitext.seen(header, one, self);
  assert.deepEqual([seen.header.head, seen.header.decided, seen.options.selected], ["d", [], null]);
  assert.deepEqual([...seen.arrays.weights], [...weightsOf(one.kinds[1], 1, 0)]);
  const marked = choiceOf({ pair: "decoder.cross:ein|b|c" }, one);
  assert.deepEqual(bitext.acted("picked", { query: 0 }, marked, one, header), { pair: null });
});

test("a head whose lines alone are on is the chosen one, in every picture", () => {
  const one = record();
  assert.deepEqual([choiceOf({ heads: "0" }, one).head, choiceOf({ heads: "0,2", head: "1" }, one).head], [0, 1]);
  assert.deepEqual(addressOf(choiceOf({ heads: "0" }, one), one), { head: "0" });
  assert.equal(choiceOf({ heads: "2", head: "mean" }, one).head, null);
});

test("a marked pair is told in every head: where it lies, and its weight", () => {
  const one = record();
  const { at, weights } = pairIn(one.kinds[0], [0, 1], [0, null, 1]);
  assert.deepEqual(at, [0.25, 0.5]);
  assert.deepEqual(weights.map((row) => row.map((weight) => weight.toFixed(2))), [["0.01", "0.07", "0.13"], [], ["0.19", "0.25", "0.31"]]);
  assert.equal(pairIn(one.kinds[0], null, [0]), null);
});

test("another head is drawn alone again, and what is marked twice is marked no more", () => {
  const one = record();
  const choice = choiceOf({ heads: "0,1", pair: "decoder.cross:ein|one" }, one);
  assert.deepEqual(grid.acted("picked", { layer: 0, head: 1 }, choice, one, {}), { layer: "0", head: "1", heads: null });
  assert.deepEqual(lines.acted("pair", { query: 0, key: 0 }, choice, one, {}), { pair: null });
  assert.deepEqual(lines.acted("heads", [], choice, one, {}), { heads: "none" });
  const header = { sides: { "decoder.cross": { query_title: "q", key_title: "k", file_names: [], abouts: [] } }, names: ["0", "1", "2", "mean"] };
  const mean = lines.seen(header, one, choiceOf({ head: "mean", heads: "0" }, one));
  assert.deepEqual([mean.header.shape, mean.header.heads, mean.options.active], [[1, 2, 3], ["mean"], [0]]);
  const all = lines.seen(header, one, choice);
  assert.deepEqual([all.header.shape, all.options.active, all.arrays.weights[0]], [[3, 2, 3], [0, 1], one.kinds[0].weights[18]]);
});
