// What a bitext says in words: what was looked at while a word was written and what decided it, or who looked at a word.

import { agreement } from "../../../transformer/plots/canvas/shared/decided.js";
import { counted, fill, listed } from "../../../transformer/plots/canvas/shared/words.js";
import { across, dotted } from "./lines.js";

const SPOKEN = 3; // words, at most
const LEAST = 0.1; // weight of a further word that is spoken of

/** @typedef {import("./lines.js").Position} Position */
/** @typedef {import("./lines.js").Shown} Shown */

/**
 * What the lines are, and how often the head looked where it is decided.
 * @param {Shown} view
 */
export function legend(view) {
  const { head, words, decided, asked, shape } = view.header;
  const said = asked ? agreement(decided, view.weights, shape[1], [words.agree, words.none, words.unknown]) : "";
  return [fill(words.solid, { head }), dotted(view, null).length ? words.dotted : "", said].filter(Boolean).join(" ");
}

/**
 * One sentence about a position, and one about what decided it, where that is known.
 * @param {Shown} view
 * @param {Position} position
 */
export function spoken(view, position) {
  return [looked(view, position), position.side === "query" ? decides(view, position.index) : decidedBy(view, position.index)].filter(Boolean).join(" ");
}

/**
 * @param {Shown} view
 * @param {Position} position
 */
function looked(view, position) {
  const { header } = view;
  const { words, head, within } = header;
  const other = position.side === "query" ? header.key : header.query;
  const found = across(view, position).filter(({ weight }, order) => weight >= LEAST || (!order && position.side === "query"));
  const each = found.slice(0, SPOKEN).map(({ index, weight }) => {
    return fill(words.weighted, { word: other.texts[index], weight: weight.toFixed(2) });
  });
  const word = header[position.side].texts[position.index];
  if (!each.length) return fill(position.side === "query" ? words.nothing : words.nobody, { word, head });
  const said = { word, head, listed: listed(each, words.listed) };
  if (position.side === "key") return fill(within ? words.from_within : words.from, said);
  return fill(within ? words.looked_within : words.looked, said);
}

/**
 * Which source word decides a written one: the one that was looked at most, another one, or none.
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
 * Which written words a source word decides.
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
