// Numbers may come before their component's script, and several elements bring the same script.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import mount from "../../../ui/components/shared/mount.js";
import { arrived } from "../../../ui/components/shared/arrivals.js";

/** A document's node without a shadow root around it. */
const parentElement = /** @type {any} */ ({ getRootNode: () => ({}) });

beforeEach(() => {
  const page = /** @type {any} */ (globalThis);
  page.window = {};
  page.ShadowRoot = class {};
  page.CSSStyleSheet = class {
    replaceSync() {}
  };
});

/**
 * A script that notes what it is asked.
 * @param {string[]} said
 * @param {string} name
 */
function script(said, name) {
  return (/** @type {any} */ run) => {
    said.push(`${name} draws ${run.data}`);
    return () => void said.push(`${name} ends ${run.data}`);
  };
}

test("numbers wait for their script, and only for theirs", () => {
  /** @type {string[]} */
  const said = [];
  const run = { name: "one", parentElement, data: 1 };
  const end = mount(run);
  arrived("two", script(said, "two"), "");
  assert.deepEqual(said, []);
  arrived("one", script(said, "one"), "");
  end();
  assert.deepEqual(said, ["one draws 1", "one ends 1"]);
});

test("a run that has ended before the script came is not drawn", () => {
  /** @type {string[]} */
  const said = [];
  mount({ name: "one", parentElement })();
  arrived("one", script(said, "one"), "");
  assert.deepEqual(said, []);
});

test("the first script stays, since it knows its instances", () => {
  /** @type {string[]} */
  const said = [];
  arrived("one", script(said, "first"), "");
  arrived("one", script(said, "second"), "");
  mount(/** @type {any} */ ({ name: "one", parentElement, data: 3 }));
  assert.deepEqual(said, ["first draws 3"]);
});
