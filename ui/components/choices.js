// What the reader has chosen: heads, a locked token, a pair. Python may choose too; the later choice counts.

/** Nothing chosen yet. */
export function newChoices() {
  return {
    active: [], // heads that are on, ascending
    locked: null, // {side, index} of the token whose lines stay isolated
    pair: null, // [query, key]
    threshold: 0,
    hovered: null, // {side, index} under the pointer or the keyboard
    previewed: null, // head whose chip is under the pointer
    current: { query: 0, key: 0 }, // where the keyboard enters each column
    outside: {}, // Python's last word on each choice, as JSON
    echoes: {}, // choices that were sent to Python and may come back
  };
}

/** Forget everything that refers to tokens or heads that are gone. */
export function forget(choices) {
  Object.assign(choices, { ...newChoices(), threshold: choices.threshold });
}

/**
 * Take Python's options. One counts only where it differs from what Python said before, and is not merely what the
 * reader chose here coming back: an echo of an older choice must not undo a newer one.
 */
export function adopt(choices, options, heads) {
  choices.threshold = options.threshold;
  const all = Array.from({ length: heads }, (_, head) => head);
  const said = { active: options.active ?? all, locked: options.locked, pair: options.selected_pair };
  for (const [name, value] of Object.entries(said)) {
    const text = JSON.stringify(value);
    const news = choices.outside[name] !== text;
    choices.outside[name] = text;
    if (news && !choices.echoes[name]?.delete(text)) choices[name] = value;
  }
  choices.active = choices.active.filter((head) => head < heads);
}

/** Note that the reader chose `value` here, and expect Python to say the same. */
export function chose(choices, name, value) {
  choices[name] = value;
  const echoes = (choices.echoes[name] ??= new Set());
  if (echoes.size >= 8) echoes.clear();
  echoes.add(JSON.stringify(value));
}

/** The heads whose lines show: those that are on, or the one whose chip is pointed at. */
export function shownHeads({ active, previewed }) {
  return active.includes(previewed) ? [previewed] : active;
}

/** The token whose lines are isolated, if any: the locked one, else the one under the pointer or the keyboard. */
export function focusOf({ choices, header }) {
  const focus = choices.locked ?? choices.hovered;
  const [, queries, keys] = header.shape;
  return focus && focus.index < (focus.side === "query" ? queries : keys) ? focus : null;
}
