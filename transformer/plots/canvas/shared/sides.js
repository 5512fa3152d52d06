// The words of two sentences that lines join: queries on one side, keys on the other. They are elements that say which.

/** @typedef {"query" | "key"} Side */

/** @typedef {{ side: Side, index: number }} Position A word. */

/**
 * The word that an element belongs to; null for anything else.
 * @param {EventTarget | null} target
 * @returns {Position | null}
 */
export function positionOf(target) {
  const found = target instanceof Element ? target.closest("[data-side][data-index]") : null;
  if (!(found instanceof HTMLElement)) return null;
  return { side: found.dataset.side === "query" ? "query" : "key", index: Number(found.dataset.index) };
}

/**
 * Call `hover` with the word under the pointer, or under the keyboard as far as that is seen, and `enter` with any word
 * that gets the keyboard.
 * @param {HTMLElement} sheet
 * @param {(position: Position | null) => void} hover
 * @param {(position: Position) => void} enter
 */
export function followWords(sheet, hover, enter) {
  sheet.onpointerover = (event) => {
    if (event.pointerType !== "touch") hover(positionOf(event.target));
  };
  sheet.addEventListener("pointerleave", () => hover(null));
  sheet.addEventListener("focusin", (event) => {
    const position = positionOf(event.target);
    if (!position) return;
    enter(position);
    if (/** @type {Element} */ (event.target).matches(":focus-visible")) hover(position);
  });
  sheet.addEventListener("focusout", () => hover(null));
}

/**
 * Whether a line is one of the word in focus, where there is one.
 * @param {{ query: number, key: number }} line
 * @param {Position | null} focus
 */
export function belongs(line, focus) {
  return !focus || line[focus.side] === focus.index;
}
