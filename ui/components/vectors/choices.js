// How points are coloured and which token stands out: chosen here, written into the address, without a run.

import { button, element } from "../../../transformer/canvas/shared/page.js";

const COLOURS = /** @type {const} */ (["side", "position", "class"]);
const ADDRESS = "heedmap-address"; // the event that tells of another address

/** @typedef {{ colour: typeof COLOURS[number], word: string }} Choice */

/**
 * What Python sends: which keys of the address are owned here, as `history.js` wants to know it, and what controls say.
 * @typedef {object} Owned
 * @property {string[]} keys
 * @property {number} arrival
 * @property {Record<string, string>} values
 * @property {{ label: string, names: string[] }} colour
 * @property {{ label: string, help: string }} word
 */

/**
 * What an address means; what it cannot mean is as if it were not there.
 * @param {Record<string, string>} values
 * @returns {Choice}
 */
export function choiceOf(values) {
  return { colour: COLOURS.find((one) => one === values.colour) ?? COLOURS[0], word: values.word ?? "" };
}

/**
 * A choice as an address says it: no default stands there.
 * @param {Choice} choice
 * @returns {Record<string, string>}
 */
export function addressOf({ colour, word }) {
  return { ...(colour === COLOURS[0] ? {} : { colour }), ...(word ? { word } : {}) };
}

/**
 * The controls; `changed` hears of every choice, whoever made it: a reader, Back, or a link.
 * @param {(choice: Choice) => void} changed
 */
export function makeChoices(changed) {
  const root = element("div", "choices");
  const [colours, words] = ["group", "group"].map((name) => element("div", name));
  const options = element("div", "options", null, { role: "radiogroup" });
  const input = element("input", "word", null, { type: "text" });
  const names = [element("div", "name"), element("div", "name")];
  colours.append(names[0], options);
  words.append(names[1], input);
  root.append(colours, words);
  const owner = {};
  let [choice, built, isOwner] = [choiceOf({}), "", false];
  root.hidden = true;

  const take = () => {
    choice = choiceOf(bar().values());
    [...options.children].forEach((one, at) => {
      one.setAttribute("aria-checked", String(COLOURS[at] === choice.colour));
      one.setAttribute("tabindex", COLOURS[at] === choice.colour ? "0" : "-1");
    });
    if (input.value.trim() !== choice.word) input.value = choice.word;
    changed(choice);
  };
  /** @param {Partial<Choice>} change */
  const write = (change) => bar().write(addressOf({ ...choice, ...change }));
  input.oninput = () => changed({ ...choice, word: input.value.trim() }); // seen while it is typed, one entry at its end
  input.onchange = () => write({ word: input.value.trim() });

  /**
   * @param {string} text
   * @param {number} at
   */
  const option = (text, at) => {
    const one = button(text, () => write({ colour: COLOURS[at] }));
    one.setAttribute("role", "radio");
    one.onkeydown = ({ key }) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
      if (!step) return true;
      const next = /** @type {HTMLElement} */ (options.children[(at + step + COLOURS.length) % COLOURS.length]);
      next.focus();
      next.click();
      return false;
    };
    return one;
  };
  return {
    root,
    /** @param {Owned | null} owned null: nothing is chosen here */
    receive(owned) {
      root.hidden = !owned;
      if (!owned) return;
      const { colour, word } = owned;
      const wanted = JSON.stringify([colour, word]);
      if (built !== wanted) {
        built = wanted;
        names[0].textContent = colour.label;
        names[1].textContent = word.label;
        options.setAttribute("aria-label", colour.label);
        input.setAttribute("aria-label", word.label);
        input.title = word.help;
        options.replaceChildren(...colour.names.map(option));
      }
      if (!isOwner) window.addEventListener(ADDRESS, take);
      isOwner = true;
      bar().arrive(owned.keys, owned.arrival, owned.values, owner);
      take();
    },
    close() {
      if (!isOwner) return;
      window.removeEventListener(ADDRESS, take);
      bar().leave(owner);
    },
  };
}

/**
 * What history.js does with the address.
 * @returns {{ arrive: (keys: string[], number: number, values: Record<string, string>, by: unknown) => void, leave: (by: unknown) => void,
 *   values: () => Record<string, string>, write: (values: Record<string, string>) => void }}
 */
function bar() {
  return /** @type {any} */ (window).heedmapAddress;
}
