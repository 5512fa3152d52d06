// What a head view says in words below its lines.

import { mean } from "./lines.js";

const HINT =
  "Point at a token, or reach it with the arrow keys, to see its lines alone; click or Enter locks it, Escape releases.";

/** A written weight; null is a masked pair. */
export function numberText(weight) {
  if (weight === null) return "masked";
  return Number.isNaN(weight) ? "NaN" : Math.abs(weight).toFixed(3);
}

/** The sentence about what is pointed at, locked or selected. */
export function readout(view, active) {
  const { choices, focus, header, pointed, weights } = view;
  const heads = active.length === 1 ? header.heads[active[0]] : `mean of the ${active.length} heads shown`;
  const token = (side, index) => `${header[`${side}_labels`][index]} (${side} ${index})`;
  if (pointed) {
    const names = `${token("query", pointed.query)} → ${token("key", pointed.key)}`;
    return `${names}: ${numberText(pointed.weight)}, ${header.heads[pointed.head]}. Click selects the pair.`;
  }
  const [, queries, keys] = header.shape;
  if (choices.pair && choices.pair[0] < queries && choices.pair[1] < keys && active.length) {
    const weight = mean(weights, header.shape, active, ...choices.pair);
    const names = `${token("query", choices.pair[0])} → ${token("key", choices.pair[1])}`;
    return `Selected pair ${names}: ${numberText(weight)}${weight === null ? "" : `, ${heads}`}.`;
  }
  if (!focus) return HINT;
  const next = choices.locked ? "Locked: click a token across to select the pair, Escape releases." : "";
  return `${token(focus.side, focus.index)}. ${next}`;
}

/** How many lines there are, which are left out, and what the numbers and marks mean. */
export function footer(view, active) {
  const { choices, focus, header, lines, measures, nan, total } = view;
  if (!active.length) return "No head is on: switch one on above.";
  const count = (number) => number.toLocaleString("en");
  const said = [
    total > lines.length
      ? `${count(lines.length)} strongest of ${count(total)} lines drawn`
      : `${count(total)} ${total === 1 ? "line" : "lines"} drawn`,
  ];
  said[0] += choices.threshold > 0 ? `; weights below ${choices.threshold} are left out.` : ".";
  said.push("Opacity and width of a line grow with its weight.");
  if (focus) {
    const whose = active.length === 1 ? `weight in ${header.heads[active[0]]}` : `mean weight of the ${active.length} heads shown`;
    said.push(`Numbers: ${whose}${measures.bars ? "; bars: one a head, full height is 1" : ""}.`);
  }
  if (header.masked) said.push("Masked pairs have no line.");
  if (nan.length) said.push(`${count(nan.length)} NaN (not a number): dashed.`);
  if (!header.exact) said.push(`Beyond each row's ${header.exact_each} largest, weights are rounded to 1/254 of the row's largest.`);
  return said.join(" ");
}
