// What all components share, without a browser: messages, sentences, texts that must fit, colours.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bit, decode } from "../../../transformer/plots/canvas/shared/blob.js";
import { MASKED } from "../../../transformer/plots/canvas/shared/cells.js";
import { headColour, scale } from "../../../transformer/plots/canvas/shared/colours.js";
import { kept, pixelRatio, shortened, wrapped } from "../../../transformer/plots/canvas/shared/page.js";
import keepRecord from "../../../ui/components/shared/record.js";
import { legendOf, titleOf } from "../../../transformer/plots/canvas/shared/saved.js";
import { printable } from "../../../transformer/plots/canvas/shared/scene.js";
import { counted, fill, same } from "../../../transformer/plots/canvas/shared/words.js";

const ruler = { measureText: (text) => ({ width: [...text].length * 10 }) }; // every character is 10 wide

/** A message as blob.py writes it, beginning `skip` bytes into its buffer. */
function message(header, parts, skip = 0) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = parts.flatMap((part) => [...new Uint8Array(part.buffer)]);
  const whole = new Uint8Array([...new Array(skip).fill(7), ...new Uint8Array(4), ...text, ...bytes]);
  new DataView(whole.buffer).setUint32(skip, text.length, true);
  return whole.subarray(skip);
}

for (const skip of [0, 1, 3]) {
  test(`a message is read wherever it begins: ${skip}`, () => {
    const [codes, places] = [new Uint8Array([1, 255, 3]), new Uint32Array([70000])];
    const weights = new Float32Array([0.25, NaN]);
    const arrays = [["codes", "uint8", 3], ["places", "uint32", 1], ["weights", "float32", 2]];
    const read = decode(message({ title: "é", arrays }, [codes, places, weights], skip));
    assert.equal(read.header.title, "é");
    assert.deepEqual(read.arrays, { codes, places, weights });
  });
}

test("bits are numbered from the left, as numpy packs them", () => {
  const packed = new Uint8Array([0b10000001, 0b01000000]);
  const set = Array.from({ length: 16 }, (_, index) => index).filter((index) => bit(packed, index));
  assert.deepEqual(set, [0, 7, 9]);
  assert.equal(bit(undefined, 0), false);
});

test("fields are filled, also twice and with what looks like a field", () => {
  assert.equal(fill("{a} of {b}, {a}", { a: 1, b: "{a}" }), "1 of {a}, 1");
  assert.equal(fill("{a}", { a: "$&" }), "$&");
  assert.throws(() => fill("{a} of {b}", { a: 1 }), /is not given/);
});

test("thousands have commas", () => {
  assert.deepEqual([0, 999, 1000, 49152].map(counted), ["0", "999", "1,000", "49,152"]);
});

test("lists of texts are the same only with the same texts in the same order", () => {
  assert.ok(same([], []));
  assert.ok(same(["a", "b"], ["a", "b"]));
  for (const other of [["a"], ["b", "a"], ["a", "b", ""], []]) assert.ok(!same(["a", "b"], other));
});

test("a text that fits stays, a longer one ends in an ellipsis within its room", () => {
  assert.equal(shortened(ruler, "abcd", 40), "abcd");
  assert.equal(shortened(ruler, "abcde", 40), "abc…");
  assert.equal(shortened(ruler, "abcde", 49), "abc…");
  assert.equal(shortened(ruler, "🙂🙂🙂🙂", 30), "🙂🙂…");
  assert.equal(shortened(ruler, "abcde", 5), "…");
});

test("lines break at spaces, and between Chinese characters but not before a comma", () => {
  assert.deepEqual(wrapped(ruler, "one two three", 70), ["one two", "three"]);
  assert.deepEqual(wrapped(ruler, "one two three", 1000), ["one two three"]);
  assert.deepEqual(wrapped(ruler, "unbreakable", 50), ["unbr…"]);
  assert.deepEqual(wrapped(ruler, "画了五条线，权重", 50), ["画了五条", "线，权重"]);
  assert.deepEqual(wrapped(ruler, "共 12 个NaN。", 60), ["共 12 个", "NaN。"]);
  assert.deepEqual(wrapped(ruler, "（共 0.5）。", 80), ["（共 0.5）。"]);
  assert.deepEqual(wrapped(ruler, "（共 0.5）。", 70), ["（共", "0.5）。"]);
  assert.deepEqual(wrapped(ruler, "", 60), []);
});

test("the scale begins and ends with viridis, between its stops it is a mean", () => {
  assert.deepEqual(scale(0), [68, 1, 84]);
  assert.deepEqual(scale(1), [253, 231, 37]);
  assert.deepEqual(scale(0.5 / 9), [70, 21, 102]);
  assert.deepEqual([scale(-1), scale(2)], [scale(0), scale(1)]);
});

test("seventeen heads share a colour with the first, sixteen do not", () => {
  for (const dark of [true, false]) {
    const colours = Array.from({ length: 17 }, (_, head) => headColour(head, { dark }, 17));
    assert.equal(new Set(colours).size, 16);
    assert.equal(colours[16], colours[0]);
  }
});

test("a canvas has two pixels a unit until browsers refuse its side or its area", () => {
  assert.equal(pixelRatio(1000, 500), 2);
  assert.equal(pixelRatio(1000, 500, 3), 3);
  assert.equal(pixelRatio(16_000, 10), 1);
  assert.ok(Math.abs(pixelRatio(12_000, 12_000) ** 2 * 12_000 ** 2 - 120_000_000) < 1);
});

const THEME = { text: "#000", font: "sans" };

test("a saved picture's title is bold and wrapped, its lines below; nothing said takes no room", () => {
  const { items, height } = titleOf({ ...ruler }, { title: "aa bb cc", lines: ["dd ee", "f"] }, 50, THEME);
  const written = items.map(({ text, bold }) => [text, bold]);
  assert.deepEqual(written, [["aa bb", true], ["cc", true], ["dd ee", false], ["f", false]]);
  assert.deepEqual(items.map(({ y }) => y), [10.5, 31.5, 50.5, 67.5]);
  assert.equal(height, 2 * 21 + 2 * 17 + 10);
  assert.deepEqual(titleOf({ ...ruler }, { title: "", lines: [""] }, 50, THEME), { items: [], height: 0 });
});

test("a legend's marks go on in a new row where they do not fit, and its height is what it paints", () => {
  const marks = ["aaaaa", "bbbbb", "ccccc"].map((name) => [name, () => []]);
  const legend = (width, some) => legendOf({ ...ruler }, { name: "", ticks: [], marks: some, note: "" }, width, THEME);
  const height = (width, some) => legend(width, some).height;
  assert.equal(height(300, []), 0);
  assert.deepEqual([1, 2, 3].map((count) => height(151, marks.slice(0, count))), [22, 40, 58]); // 69 + 14 + 69 wide
  assert.deepEqual([1, 2, 3].map((count) => height(152, marks.slice(0, count))), [22, 22, 40]);
  const { items, width } = legend(60, [["aaa bbb", () => []]]);
  // No meaning is cut short.
  assert.deepEqual(items.map(({ text, x, y }) => [text, x, y]), [["aaa", 19, 7], ["bbb", 19, 24]]);
  assert.equal(width, 49);
});

test("a late run's end leaves the record of the newer run, and the last one's end leaves none", () => {
  const before = globalThis.window;
  globalThis.window = Object.assign(new EventTarget(), {});
  try {
    const header = { id: "r", kinds: [{ name: "encoder.self" }], arrays: [["weights_0", "float32", 2]] };
    const data = message(header, [new Float32Array([0.5, MASKED])]);
    const [late, newer] = [keepRecord({ data }), keepRecord({ data })];
    late();
    assert.deepEqual([...kept("heedmapRecords").get("r").kinds[0].weights], [0.5, MASKED]);
    newer();
    assert.equal(kept("heedmapRecords").get("r"), undefined);
  } finally {
    globalThis.window = before;
  }
});

test("numbers of 16 bits are read as what they are", () => {
  const halves = Float16Array.from([0.5, -0.25, NaN, -Infinity, 2 ** -24]);
  const { arrays } = decode(message({ arrays: [["a", "float16", 5]] }, [halves], 1));
  assert.deepEqual([arrays.a.constructor, [...arrays.a]], [Float32Array, [...halves]]);
});

test("what XML cannot hold becomes the replacement character", () => {
  assert.equal(printable("a\tb\u0007c\ud800d🙂"), "a\tb\ufffdc\ufffdd🙂");
});
