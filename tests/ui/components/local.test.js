// What an address means for the page's record, and what the browser's own drawing makes of it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { local as grid, pairIn } from "../../../transformer/plots/canvas/all_heads/all_heads.js";
import { MASKED } from "../../../transformer/plots/canvas/shared/cells.js";
import { localOf } from "../../../transformer/plots/canvas/lines/lines.js";
import { addressOf, choiceOf, pairOf, weightsOf } from "../../../transformer/plots/canvas/shared/local.js";

const axis = (...labels) => ({ name: "words", labels, texts: labels });

/** Two kinds of two layers and three heads: 2 queries, and 3 keys or 2. Cell (layer, head, query, key) is known. */
function record() {
  const kind = (name, queries, keys) => {
    const size = queries.labels.length * keys.labels.length;
    const weights = Float32Array.from({ length: 2 * 3 * size }, (_, at) => at / 100);
    return { name, sites: [`${name}.0`, `${name}.1`], heads: 3, queries, keys, weights };
  };
  const kinds = [
    kind("decoder.cross", axis("ein", "a|b"), axis("one", "two", "b|c")),
    kind("encoder.self", axis("x", "y"), axis("x", "y")),
  ];
  return { id: "r", kinds, usual: { layer: 1, head: 2 } };
}

test("an address chooses, and what it cannot mean is as if it were not there", () => {
  const one = record();
  const usual = choiceOf({}, one);
  assert.deepEqual([usual.kind.name, usual.layer, usual.head], ["decoder.cross", 1, 2]);
  const asked = choiceOf({ kind: "encoder.self", layer: "0", head: "mean", relative: "True" }, one);
  assert.deepEqual([asked.kind.name, asked.layer, asked.head, asked.relative], ["encoder.self", 0, null, true]);
  const wrong = { kind: "constructor", layer: "2", head: "-1", pair: "9-9999999", relative: "yes" };
  assert.deepEqual(choiceOf(wrong, one), usual);
});

test("an address says what differs from the defaults, and says it again as it was read", () => {
  const one = record();
  assert.deepEqual(addressOf(choiceOf({ kind: "decoder.cross", layer: "1", head: "2" }, one), one), {});
  const said = { kind: "encoder.self", layer: "0", head: "0", pair: "encoder.self:x|y", relative: "true" };
  assert.deepEqual(addressOf(choiceOf(said, one), one), said);
});

/** The same with names for layers that tell the kind too: two numbers, and one word for the place shown at first. */
function named() {
  const one = record();
  const [numbered, alone] = [one.kinds[1], one.kinds[0]];
  const weights = alone.weights.slice(0, alone.weights.length / 2);
  const single = { ...alone, name: "pooling", sites: ["pooling"], layers: ["pooling"], weights };
  return { ...one, kinds: [{ ...numbered, layers: ["0", "1"] }, single], usual: { kind: 1, layer: 0, head: null } };
}

test("the name of a layer tells the kind, and the mean may be what is shown at first", () => {
  const one = named();
  const said = (values) => addressOf(choiceOf(values, one), one);
  const usual = choiceOf({}, one);
  assert.deepEqual([usual.kind.name, usual.layer, usual.head], ["pooling", 0, null]);
  const unknown = [{ layer: "pooling", head: "mean" }, { layer: "2", head: "3" }, { kind: "encoder.self", layer: "x" }];
  for (const nothing of unknown) assert.ok(!said(nothing).layer);
  assert.deepEqual(said({ layer: "pooling", head: "mean" }), {});
  const asked = choiceOf({ layer: "1", head: "0" }, one);
  assert.deepEqual([asked.kind.name, asked.layer, asked.head], ["encoder.self", 1, 0]);
  const both = [said({ layer: "1", head: "0" }), said({ layer: "0" })];
  assert.deepEqual(both, [{ layer: "1", head: "0" }, { layer: "0" }]);
});

test("a grid of all kinds has numbers of its own, and a pick in it names the layer", () => {
  const one = named();
  const header = { places: [[0, 0], [0, 1], [1, 0]] };
  const arrays = { codes: new Uint8Array(1) };
  const at = (values) => grid.seen(header, one, choiceOf(values, one), {}, arrays).options.selected;
  assert.deepEqual([at({ layer: "1", head: "2" }), at({ head: "1" }), at({ layer: "1" })], [[1, 2], [2, 1], null]);
  assert.equal(grid.seen(header, one, choiceOf({}, one), {}, arrays).arrays, arrays);
  const picked = (layer) => grid.acted("picked", { layer, head: 2 }, choiceOf({}, one), one, header);
  assert.deepEqual([picked(1), picked(2)], [{ layer: "1", head: "2" }, { layer: "pooling", head: "2" }]);
});

test("a pair is found by its words, which may hold the sign between them, and in its own kind alone", () => {
  const [cross, self] = record().kinds;
  assert.deepEqual(pairOf("decoder.cross:a|b|b|c", cross), [1, 2]);
  assert.equal(pairOf("decoder.cross:a|b|b|c", self), null);
  assert.equal(pairOf("decoder.cross:ein|nobody", cross), null);
});

test("the mean of a layer's heads hides what they hide", () => {
  const [cross] = record().kinds;
  cross.weights.set([MASKED], 2);
  cross.weights.set([MASKED], 6 + 2);
  cross.weights.set([MASKED], 12 + 2);
  const mean = weightsOf(cross, 0, null);
  assert.deepEqual([...mean].map((one) => one.toFixed(2)), ["0.06", "0.07", "-Infinity", "0.09", "0.10", "0.11"]);
  const weights = [...weightsOf(cross, 1, 2)].map((one) => one.toFixed(2));
  assert.deepEqual(weights, ["0.30", "0.31", "0.32", "0.33", "0.34", "0.35"]);
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

test("lines are the chosen head's, of any kind, with what decides a word; in columns the mean shows all", () => {
  const one = record();
  one.kinds[0].decided = [[2, 1.5], [-1, 0.5]];
  const side = (/** @type {string} */ name) => (
    { heads: [["a", "b", "c", name], ["d", "e", "f", `${name}1`]], file_names: [[], []], abouts: [] }
  );
  const [bitext, columns] = [localOf(false), localOf(true)];
  const header = { sides: { "decoder.cross": side("m"), "encoder.self": side("s") } };
  const cross = bitext.seen(header, one, choiceOf({ head: "mean", pair: "decoder.cross:ein|two" }, one));
  assert.deepEqual([cross.header.head, cross.header.decided, cross.options.selected], ["m1", [[2, 1.5], [-1, 0.5]], 0]);
  const self = choiceOf({ kind: "encoder.self", head: "0" }, one);
  const seen = bitext.seen(header, one, self);
  assert.deepEqual([seen.header.head, seen.header.decided, seen.options.selected], ["d", [], null]);
  assert.deepEqual([...seen.arrays.weights], [...weightsOf(one.kinds[1], 1, 0)]);
  assert.deepEqual([seen.header.query.texts, seen.header.key.texts], [["x", "y"], ["x", "y"]]);
  assert.equal(seen.arrays.all, undefined);
  assert.equal(columns.seen(header, one, self).arrays.all, undefined);
  assert.equal(columns.seen(header, one, choiceOf({ head: "mean" }, one)).arrays.all[0], one.kinds[0].weights[18]);
  const marked = choiceOf({ pair: "decoder.cross:ein|b|c" }, one);
  assert.deepEqual(bitext.acted("picked", { query: 0 }, marked, one, header), { pair: null });
});

test("a marked pair is told in every head: where it lies, and its weight", () => {
  const one = record();
  const { at, weights } = pairIn(one.kinds[0], [0, 1], [0, null, 1]);
  assert.deepEqual(at, [0.25, 0.5]);
  const written = weights.map((row) => row.map((weight) => weight.toFixed(2)));
  assert.deepEqual(written, [["0.01", "0.07", "0.13"], [], ["0.19", "0.25", "0.31"]]);
  assert.equal(pairIn(one.kinds[0], null, [0]), null);
});
