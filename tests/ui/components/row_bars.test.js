// Row bars: what becomes of a row when one of its bars is moved.

import assert from "node:assert/strict";
import { test } from "node:test";

import { moved, shared } from "../../../ui/components/row_bars/row_bars.js";

const sum = (row) => row.reduce((before, part) => before + part, 0);

test("the others share what one leaves, in their proportions, and the row always sums to 1", () => {
  assert.deepEqual(moved([500, 300, 200], 0, 250), [250, 450, 300]);
  assert.deepEqual(moved([500, 300, 200], 2, 1000), [0, 0, 1000]);
  assert.deepEqual(moved([0, 0, 1000], 2, 400), [300, 300, 400], "all that are 0 share alike");
  for (const value of [-5, 1, 333, 999.6, 1001]) assert.equal(sum(moved([334, 333, 332, 1], 1, value)), 1000);
  assert.deepEqual(moved([1000], 0, 300), [1000], "one key alone keeps the row");
});

test("what rounding leaves over is spread over the row", () => {
  assert.deepEqual(shared([1, 1, 1], 1000), [333, 334, 333]);
  assert.deepEqual(shared([0.3, 0.7], 999), [300, 699]);
  assert.deepEqual(shared([-1, 1, 3], 100), [0, 25, 75], "no weight is below 0");
});
