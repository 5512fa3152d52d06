// What is said of the lines between words: what they are, where a word looks, and which word decides it.

import { agreement } from "../shared/cells.js";
import { counted, fill, listed } from "../shared/words.js";
import { across, dotted, leastOf } from "./scene.js";

const SPOKEN = { most: 3, least: 0.1 }; // words that are named, and the weight of a further one

/** @typedef {import("./scene.js").Position} Position */
/** @typedef {import("./scene.js").Shown} Shown */

/**
 * What the lines are, and how often the head looked where it is decided.
 * @param {Shown} view
 */
export function legend(view) {
  const { head, words, decided, asked, shape } = view.header;
  const agreed = asked ? agreement(decided, view.weights, shape[1], [words.agree, words.none, words.unknown]) : "";
  const solid = view.all ? words.coloured : fill(words.solid, { head });
  const left = view.columns ? fill(words.above, { least: leastOf(view, null) }) : "";
  return [solid, left, dotted(view, null).length ? words.dotted : "", agreed].filter(Boolean).join(" ");
}

/**
 * One sentence about a position, and one about what decided it, where that is known.
 * @param {Shown} view
 * @param {Position} position
 */
export function spoken(view, position) {
  const decided = (position.side === "query" ? decides : decidedBy)(view, position.index);
  return [looked(view, position), decided].filter(Boolean).join(" ");
}

/**
 * @param {Shown} view
 * @param {Position} position
 */
function looked(view, position) {
  const { words, head, within, query, key } = view.header;
  const isQuery = position.side === "query";
  const other = isQuery ? key : query;
  const found = across(view, position).filter(({ weight }, order) => weight >= SPOKEN.least || (!order && isQuery));
  const each = found.slice(0, SPOKEN.most).map(({ index, weight }) => {
    return fill(words.weighted, { word: other.texts[index], weight: weight.toFixed(2) });
  });
  const word = view.header[position.side].texts[position.index];
  if (!each.length) return fill(isQuery ? words.nothing : words.nobody, { word, head });
  const said = { word, head, listed: listed(each, words.listed) };
  if (!isQuery) return fill(within ? words.from_within : words.from, said);
  return fill(within ? words.looked_within : words.looked, said);
}

/**
 * Which key decides a query: the one that was looked at most, another one, or none.
 * @param {Shown} view
 * @param {number} query
 */
function decides(view, query) {
  const { words, decided, key: source, query: target } = view.header;
  if (!decided[query] || target.special[query]) return "";
  const [key, nats] = decided[query];
  const said = { word: target.texts[query], nats: nats.toFixed(2), times: timesOf(nats) };
  if (key < 0) return fill(words.undecided, said);
  const most = across(view, { side: "query", index: query })[0]?.index;
  return fill(most === key ? words.same : words.other, { ...said, source: source.texts[key] });
}

/**
 * Which queries a key decides.
 * @param {Shown} view
 * @param {number} key
 */
function decidedBy({ header: { words, decided, query: target } }, key) {
  const found = decided.flatMap(([one], query) => (one === key ? [target.texts[query]] : []));
  return found.length ? fill(words.decides, { listed: listed(found, words.listed) }) : "";
}

/**
 * How many times less likely a word is that loses so many nats.
 * @param {number} nats
 */
export function timesOf(nats) {
  const times = Math.exp(Math.max(nats, 0));
  return times < 10 ? times.toFixed(1) : counted(Number(times.toPrecision(2)));
}
