// What the user has chosen: heads, a locked token, a pair. The address may say another; the later choice counts.

/** @typedef {import("../shared/sides.js").Position} Position A token. */

/** @typedef {{ active: number[] | null, selected_pair: [number, number] | null, threshold: number }} Options */

/** @typedef {ReturnType<typeof newChoices>} Choices */

/** Nothing chosen yet. */
export function newChoices() {
  return {
    active: /** @type {number[]} */ ([]), // heads that are on, ascending
    locked: /** @type {Position | null} */ (null), // the token whose lines stay isolated
    pair: /** @type {[number, number] | null} */ (null), // query, key
    threshold: 0,
    hovered: /** @type {Position | null} */ (null), // under the pointer or the keyboard
    previewed: /** @type {number | null} */ (null), // head whose chip is under the pointer
    current: { query: 0, key: 0 }, // where the keyboard enters each column
    said: { active: "", pair: "" }, // the address's last word on each choice, as JSON
    telling: 0, // the timer of a change of heads that is not in the address yet
  };
}

/**
 * Forget everything that refers to tokens or heads that are gone.
 * @param {Choices} choices
 */
export function forget(choices) {
  clearTimeout(choices.telling);
  Object.assign(choices, { ...newChoices(), threshold: choices.threshold });
}

/**
 * Take what the address says. It counts only where it differs from what it said before: saying the same again must not
 * undo what the user chose here in between. Other heads take the place of a change that is not in the address yet.
 * @param {Choices} choices
 * @param {Options} options
 * @param {number} heads
 */
export function adopt(choices, options, heads) {
  choices.threshold = options.threshold;
  const active = options.active ?? Array.from({ length: heads }, (_, head) => head);
  const said = { active: JSON.stringify(active), pair: JSON.stringify(options.selected_pair) };
  if (said.active !== choices.said.active) {
    clearTimeout(choices.telling);
    Object.assign(choices, { active: active.filter((head) => head < heads), telling: 0 });
  }
  if (said.pair !== choices.said.pair) choices.pair = options.selected_pair;
  choices.said = said;
}

/**
 * The heads whose lines show: those that are on, or the one whose chip is pointed at.
 * @param {Pick<Choices, "active" | "previewed">} choices
 */
export function shownHeads({ active, previewed }) {
  return previewed !== null && active.includes(previewed) ? [previewed] : active;
}

/**
 * The token whose lines are isolated, if any: the locked one, else the one under the pointer or the keyboard.
 * @param {Pick<Choices, "locked" | "hovered">} choices
 * @param {import("../shared/lines.js").Shape} shape
 */
export function focusOf({ locked, hovered }, [, queries, keys]) {
  const focus = locked ?? hovered;
  return focus && focus.index < (focus.side === "query" ? queries : keys) ? focus : null;
}
