// What a component draws without the server: the record of the page holds the numbers, the address says which of them.
// A change is written into the address (history.js), and every component of the page draws from it.

import { kept } from "./page.js";

/** The event that tells of another record, and the one that tells of another address. */
export const RECORD = "heedmap-record";
export const ADDRESS = "heedmap-address";

export const MEAN = "mean";

/**
 * One kind of attention: the weights of all layers and heads, `MASKED` where the mask hides a cell, in the form
 * that the page shows.
 * @typedef {object} Kind
 * @property {string} name
 * @property {string[]} sites one a layer
 * @property {string[]} [layers] what addresses call the layers, where that alone tells the kind too
 * @property {string[]} [numbers] the layers' own numbers, where they are not 0, 1, 2; "" for a site without one
 * @property {number} heads
 * @property {Axis} queries
 * @property {Axis} keys
 * @property {[key: number, nats: number][]} [decided] for each query the key that decides it, -1 where none does, and
 *   what it loses without it
 * @property {number[]} [there] the layers that `weights` holds, where it does not hold all of them
 * @property {Float32Array<ArrayBuffer>} weights layer, head, query, key
 */

/** @typedef {{ name: string, labels: string[], texts: string[] }} Axis */

/**
 * The record of the page: its kinds, and the place (the first kind, unless it has a number) and the head (null: the
 * mean) that are shown unless the address says otherwise.
 * @typedef {{ kind?: number, layer: number, head: number | null }} Usual
 * @typedef {{ id: string, kinds: Kind[], usual: Usual }} RecordOfPage
 */

/** @typedef {Record<string, string>} Values What the address says, by key. */

/**
 * What is looked at; `head` is null for the mean.
 * @typedef {{
 *   kind: Kind, layer: number, head: number | null, pair: [number, number] | null, relative: boolean,
 * }} Choice
 */

/** @typedef {{ header: any, arrays: Record<string, any>, options: any }} Seen What a component is given to draw. */

/**
 * What a component draws of a record, and what an event of it changes in the address (null: nothing).
 * @typedef {object} Local
 * @property {(
 *   header: any, record: RecordOfPage, choice: Choice, allowed: any, arrays: Record<string, any>,
 * ) => Seen | null} seen null while what is chosen is not here yet
 * @property {(
 *   name: string, value: any, choice: Choice, record: RecordOfPage, header: any,
 * ) => Partial<Said> | null} acted
 * @property {boolean} [owns] whether it says the choice again in the address, as it was read
 */

/**
 * A choice as the address says it; undefined leaves a key as it is, null takes it away.
 * @typedef {Record<"kind" | "layer" | "head" | "pair" | "relative", string | null>} Said
 */

/**
 * A layer's number as a reader knows it.
 * @param {Kind} kind
 * @param {number} layer
 */
export function numberOf({ numbers }, layer) {
  return numbers?.[layer] ?? String(layer);
}

/**
 * Take a record that has arrived; returns what takes it away again.
 * @param {import("./blob.js").Received} received
 */
export function keepRecord({ header, arrays }) {
  const withWeights = (/** @type {any} */ kind, /** @type {number} */ order) => (
    { ...kind, weights: arrays[`weights_${order}`] }
  );
  const kinds = header.kinds.map(withWeights);
  const [found, mine] = [kept("heedmapRecords"), { ...header, kinds }];
  found.set(header.id, mine);
  window.dispatchEvent(new Event(RECORD));
  return () => {
    if (found.get(header.id) === mine) found.delete(header.id); // Streamlit ends a late run after newer ones have begun
  };
}

/**
 * What a page does with its address: history.js in the dashboard, page.js where there is no server.
 * @typedef {{ arrive: (local: any) => void, isDrawn: (local: any) => boolean, values: () => Values,
 *   write: (values: Values) => void, settle: (values: Values) => void }} AddressBar
 */

/** @returns {AddressBar} */
function addressBar() {
  return /** @type {any} */ (window).heedmapAddress;
}

/**
 * The part of a component's life that goes on without the server; `take` draws, `tell` tells Python.
 * @param {Local} local
 * @param {(seen: Seen) => void} take
 * @param {(name: string, value: unknown) => void} tell
 */
export function locally(local, take, tell) {
  /** @type {import("./blob.js").Received | null} */
  let received = null;
  /** @type {any} */
  let allowed = {};
  let isDue = false;
  const now = () => {
    const record = received && /** @type {RecordOfPage} */ (kept("heedmapRecords").get(received.header.local.record));
    return record ? { record, choice: choiceOf(addressBar().values(), record) } : null;
  };
  const again = () => {
    const found = now();
    if (!received || !found || !addressBar().isDrawn(received.header.local)) return;
    const seen = local.seen(received.header, found.record, found.choice, allowed, received.arrays);
    if (seen) take(seen);
    if (!local.owns || isDue) return;
    isDue = true;
    whenIdle(() => {
      isDue = false;
      const last = now();
      if (last) addressBar().settle(addressOf(last.choice, last.record));
    });
  };
  const listen = (/** @type {"addEventListener" | "removeEventListener"} */ what) => {
    for (const event of [RECORD, ADDRESS]) window[what](event, again);
  };
  return {
    isOpen: () => received !== null,
    /**
     * A message of the server; false where it holds the component's own numbers.
     * @param {import("./blob.js").Received} message
     */
    receive(message) {
      const { local: found } = message.header;
      if (received && !found) this.close();
      if (!found) return false;
      if (!received) listen("addEventListener");
      received = message;
      addressBar().arrive(found);
      again();
      return true;
    },
    /**
     * The server's options.
     * @param {any} options
     */
    allow(options) {
      allowed = options;
      again();
    },
    /**
     * An event of the component: a change of the address, or one for Python.
     * @param {string} name
     * @param {unknown} value
     */
    act(name, value) {
      const found = now();
      const changes = found && local.acted(name, value, found.choice, found.record, received?.header);
      if (!changes) return tell(name, name === "asked" ? addressBar().values() : value);
      const said = { ...addressOf(found.choice, found.record), ...changes };
      const values = Object.fromEntries(Object.entries(said).filter(([, one]) => typeof one === "string"));
      addressBar().write(addressOf(choiceOf(/** @type {Values} */ (values), found.record), found.record));
    },
    close() {
      if (!received) return;
      received = null;
      listen("removeEventListener");
    },
  };
}

/**
 * What values of an address mean for a record; what they cannot mean is as if they were not there.
 * @param {Values} values
 * @param {RecordOfPage} record
 * @returns {Choice}
 */
export function choiceOf(values, { kinds, usual }) {
  const called = kinds.find(({ layers }) => layers?.includes(values.layer));
  const kind = called ?? kinds.find(({ name, layers }) => !layers && name === values.kind) ?? kinds[usual.kind ?? 0];
  const numbered = oneOf(values.layer, kind.sites.length) ?? Math.min(usual.layer, kind.sites.length - 1);
  const layer = called?.layers?.indexOf(values.layer) ?? numbered;
  const head = values.head === MEAN ? null : (oneOf(values.head, kind.heads) ?? usualHead(usual, kind));
  const relative = values.relative?.toLowerCase() === "true";
  return { kind, layer, head, pair: pairOf(values.pair ?? "", kind), relative };
}

/**
 * A choice as the address says it: no default stands there.
 * @param {Choice} choice
 * @param {RecordOfPage} record
 * @returns {Values}
 */
export function addressOf({ kind, layer, head, pair, relative }, { kinds, usual }) {
  /** @type {Values} */
  const said = {};
  const isUsual = kind === kinds[usual.kind ?? 0];
  const isUsualLayer = layer === Math.min(usual.layer, kind.sites.length - 1);
  if (!isUsual && !kind.layers) said.kind = kind.name;
  if (!isUsualLayer || (!isUsual && kind.layers)) said.layer = kind.layers?.[layer] ?? String(layer);
  if (head !== usualHead(usual, kind)) said.head = head === null ? MEAN : String(head);
  if (pair) said.pair = pairSaid(kind, ...pair);
  if (relative) said.relative = "true";
  return said;
}

/**
 * @param {Usual} usual
 * @param {Kind} kind
 */
function usualHead({ head }, { heads }) {
  return head === null ? null : Math.min(head, heads - 1);
}

/**
 * The weights of a layer's heads, one after the other; null where they are not here.
 * @param {Kind} kind
 * @param {number} layer
 */
export function layerOf({ weights, there, heads, queries, keys }, layer) {
  const size = heads * queries.texts.length * keys.texts.length;
  const place = there ? there.indexOf(layer) : layer;
  return place < 0 ? null : weights.subarray(place * size, (place + 1) * size);
}

/**
 * The weights of one head of a kind, or of the mean of a layer's heads; null where they are not here.
 * @param {Kind} kind
 * @param {number} layer
 * @param {number | null} head
 * @returns {Float32Array<ArrayBuffer> | null}
 */
export function weightsOf(kind, layer, head) {
  const { heads, queries, keys } = kind;
  const size = queries.texts.length * keys.texts.length;
  const found = layerOf(kind, layer);
  if (!found || head !== null) return found?.slice((head ?? 0) * size, ((head ?? 0) + 1) * size) ?? null;
  const mean = new Float32Array(size);
  for (let cell = 0; cell < size; cell++) {
    let sum = 0;
    for (let one = 0; one < heads; one++) sum += found[one * size + cell];
    mean[cell] = sum / heads;
  }
  return mean;
}

/**
 * The cell (query, key) that an address marks, if it is one of this kind, between words that the record has.
 * @param {string} said
 * @param {Kind} kind
 * @returns {[number, number] | null}
 */
export function pairOf(said, { name, queries, keys }) {
  const parts = said.startsWith(`${name}:`) ? said.slice(name.length + 1).split("|") : [];
  for (let cut = 1; cut < parts.length; cut++) {
    const query = queries.labels.indexOf(parts.slice(0, cut).join("|"));
    const key = keys.labels.indexOf(parts.slice(cut).join("|"));
    if (query >= 0 && key >= 0) return [query, key];
  }
  return null;
}

/**
 * A cell as an address marks it: in words, since a place means something else once the sentence changes.
 * @param {Kind} kind
 * @param {number} query
 * @param {number} key
 */
export function pairSaid({ name, queries, keys }, query, key) {
  return `${name}:${queries.labels[query]}|${keys.labels[key]}`;
}

/**
 * The change that marks a cell, or takes its mark away.
 * @param {Choice} choice
 * @param {number} query
 * @param {number} key
 */
export function toggled({ kind, pair }, query, key) {
  return { pair: pair?.[0] === query && pair[1] === key ? null : pairSaid(kind, query, key) };
}

/**
 * A whole number below `count`; null for anything else.
 * @param {string | undefined} text
 * @param {number} count
 */
function oneOf(text, count) {
  return text !== undefined && /^\d{1,8}$/.test(text) && Number(text) < count ? Number(text) : null;
}

/**
 * Act once no script runs: what a run writes into the address, it has written then.
 * @param {() => void} act
 */
function whenIdle(act) {
  const app = document.querySelector("[data-testid=stApp]");
  if (!app || app.getAttribute("data-test-script-state") === "notRunning") return act();
  const seen = new MutationObserver(() => {
    if (app.getAttribute("data-test-script-state") !== "notRunning") return;
    seen.disconnect();
    act();
  });
  seen.observe(app, { attributeFilter: ["data-test-script-state"] });
}
