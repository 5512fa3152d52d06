// Vectors: which point is which, what it shares weight with, and where the arrow keys lead, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { addressOf, choiceOf } from "../../../ui/components/vectors/choices.js";
import { placed } from "../../../ui/components/vectors/plot.js";
import { nearest, numberOf, partners, pointsOf, stepped } from "../../../ui/components/vectors/points.js";
import { spoken } from "../../../ui/components/vectors/sentences.js";

/** Two sentences of unlike lengths: 2 queries over 3 keys, then 3 over 2. */
const sentences = [
  { query: ["a", "b"], key: ["x", "y", "z"] },
  { query: ["c", "d", "e"], key: ["u", "v"] },
];
const weights = new Float32Array([0.7, 0.26, 0.04, 0.1, 0.2, 0.7, 0.5, 0.5, 0.9, 0.1, 0.02, 0.98]);
const held = pointsOf(sentences);

test("queries of all sentences come first, then the keys", () => {
  assert.equal(held.points.length, 10);
  assert.deepEqual(held.points[3], { side: "query", sentence: 1, place: 1 });
  assert.deepEqual(held.points[8], { side: "key", sentence: 1, place: 0 });
  assert.equal(numberOf(held, sentences, { side: "key", sentence: 1, place: 0 }), 8);
  assert.equal(numberOf(held, sentences, { side: "key", sentence: 1, place: 2 }), null);
});

test("a query's partners are its own row's keys, a key's the rows that look at it, the strongest first", () => {
  assert.deepEqual(partners(held, sentences, weights, 0).map(({ text }) => text), ["x", "y"]); // 0.04 is too little
  assert.deepEqual(partners(held, sentences, weights, 9).map(({ text, number }) => [text, number]), [["e", 4], ["c", 2], ["d", 3]]);
});

test("arrow keys go along a sentence, queries then keys, and to the same place of the next", () => {
  assert.equal(stepped(held, sentences, null, "ArrowRight"), 0);
  assert.equal(stepped(held, sentences, 1, "ArrowRight"), 5); // from its last query to its first key
  assert.equal(stepped(held, sentences, 5, "ArrowLeft"), 1);
  assert.equal(stepped(held, sentences, 7, "ArrowDown"), 9); // the other sentence has fewer keys
  assert.equal(stepped(held, sentences, 0, "ArrowUp"), 0);
  assert.equal(stepped(held, sentences, 4, "End"), 9);
  assert.equal(stepped(held, sentences, 4, "x"), null);
});

test("both axes have one scale, up is up, and magnifying keeps the middle where it is", () => {
  const places = new Float32Array([0, 0, 4, 0, 4, 2]);
  const at = placed({ places, zoom: 1, middle: null }, 252, 152);
  assert.deepEqual([...at], [26, 126, 226, 126, 226, 26]);
  const large = placed({ places, zoom: 3, middle: [4, 2] }, 252, 152);
  assert.deepEqual([large[4], large[5]], [126, 76]);
  assert.equal(large[2] - large[0], 600);
  assert.equal(nearest(at, 30, 120, 14), 0);
  assert.equal(nearest(at, 60, 60, 14), null);
});

test("a sentence says the token, its place, and at most three partners with their weights", () => {
  const words = { weighted: "{word}={weight}", listed: "{before}; {after}", query_looks: "{word} {place}: {listed}", key_seen: "{word}<{listed}", query_alone: "{word} alone", key_alone: "" };
  const view = { held, header: { sentences, words }, weights };
  assert.equal(spoken(view, 0), "a 1: x=0.70; y=0.26");
  assert.equal(spoken(view, 9), "v<e=0.98; c=0.50; d=0.10");
});

test("no default stands in an address, and what it cannot mean is as if it were not there", () => {
  assert.deepEqual(choiceOf({ colour: "class", word: "dog" }), { colour: "class", word: "dog" });
  assert.deepEqual(choiceOf({ colour: "red" }), { colour: "side", word: "" });
  assert.deepEqual(addressOf({ colour: "side", word: "" }), {});
  assert.deepEqual(addressOf({ colour: "position", word: "dog" }), { colour: "position", word: "dog" });
});
