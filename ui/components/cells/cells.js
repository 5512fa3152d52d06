// A layer over a heatmap of Plotly's, through which the keyboard walks its cells: arrow keys move a ring, Enter picks.

import { activate } from "../../../transformer/canvas/shared/active.js";
import { component } from "../../../transformer/canvas/shared/component.js";
import { moved } from "../../../transformer/canvas/shared/grid.js";
import { element, focusedBeside, say } from "../../../transformer/canvas/shared/page.js";
import { fill, sameTexts, written } from "../../../transformer/canvas/shared/words.js";
import { boxOf } from "./places.js";

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {string} plot the key of the heatmap
 * @property {string} title
 * @property {string[]} queries
 * @property {string[]} keys
 * @property {Record<"hint" | "hint_read" | "name" | "told" | "masked" | "nan" | "marked", string>} words
 */

/**
 * @typedef {import("../../../transformer/canvas/shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   values: Float32Array<ArrayBuffer>,
 *   visible: Uint8Array<ArrayBuffer>,
 *   selected: [number, number] | null,
 *   current: [number, number],
 * }} View
 * `selected` is the cell that Python keeps, `current` the one where the keyboard stands.
 */

export default component("cells", (frame) => {
  /** @type {Partial<View>} */
  const start = { selected: null, current: [0, 0] };
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), start));
  let following = false;
  const follow = () => {
    following = focusedBeside(view.layer) === view.layer;
    place(view, following);
    if (following) requestAnimationFrame(follow); // Plotly draws, zooms and moves when it likes
  };
  view.layer.addEventListener("focus", () => following || follow());
  view.layer.addEventListener("focus", view.draw);
  view.layer.addEventListener("blur", view.draw);
  view.layer.onkeydown = (event) => {
    if (press(view, event.key)) event.preventDefault();
  };
  return {
    receive: (received) => receive(view, received),
    adopt: ({ selected }) => {
      const same = selected?.[0] === view.selected?.[0] && selected?.[1] === view.selected?.[1];
      if (!same && selected) view.current = selected;
      view.selected = selected;
    },
    draw: () => draw(view),
  };
});

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const layer = element("canvas", "layer", null, { tabindex: "0", role: "grid" });
  const ring = element("div", "ring", null, { "aria-hidden": "true" });
  ring.style.visibility = "hidden"; // until the keyboard comes
  const reading = element("div", "reading", "", { "aria-hidden": "true" });
  ring.style.visibility = "hidden"; // until the keyboard stands on a cell
  root.append(layer, ring, reading);
  return { layer, ring, reading };
}

/**
 * Take another picture; where the keyboard stands is kept while the words stay the same.
 * @param {View} view
 * @param {import("../../../transformer/canvas/shared/blob.js").Received} received
 */
function receive(view, { header, arrays }) {
  /** @type {Header | undefined} */
  const before = view.header;
  const same = before && sameTexts(before.queries, header.queries) && sameTexts(before.keys, header.keys);
  if (!same) view.current = [0, 0];
  Object.assign(view, { header, values: arrays.values, visible: arrays.visible });
}

/** @param {View} view */
function draw(view) {
  const { layer, header, current, selected, reading } = view;
  const { words, queries, keys } = header;
  layer.setAttribute("aria-label", fill(words.name, { title: header.title, queries: queries.length, keys: keys.length }));
  layer.setAttribute("aria-rowcount", String(queries.length));
  layer.setAttribute("aria-colcount", String(keys.length));
  const marked = selected?.[0] === current[0] && selected[1] === current[1];
  const text = `${told(view)}${marked ? ` ${words.marked}` : ""}`;
  const attributes = { "aria-colindex": current[1] + 1, "aria-selected": String(marked) };
  activate(layer, "gridcell", text, attributes, ["row", { "aria-rowindex": current[0] + 1 }]);
  const focused = focusedBeside(layer) === layer;
  say(reading, focused ? text : view.hears("picked") ? words.hint : words.hint_read);
}

/**
 * The cell where the keyboard stands, in words.
 * @param {View} view
 */
function told({ header, values, visible, current: [query, key] }) {
  const { words, queries, keys } = header;
  const index = query * keys.length + key;
  const value = visible[index] ? written(values[index], 3, words.nan) : words.masked;
  return fill(words.told, { query: queries[query], key: keys[key], value });
}

/**
 * Put the layer over the heatmap's cells and the ring around the current one, where there is a heatmap.
 * @param {View} view
 * @param {boolean} seen whether the ring is shown
 */
function place({ root, layer, ring, header, current }, seen) {
  const around = root.getBoundingClientRect();
  const { area, cell } = boxOf(header.plot, current) ?? { area: null, cell: null };
  for (const [made, box] of /** @type {const} */ ([[layer, area], [ring, seen ? cell : null]])) {
    made.style.visibility = box || made === layer ? "" : "hidden";
    if (!box) continue;
    made.style.left = `${box.left - around.left}px`;
    made.style.top = `${box.top - around.top}px`;
    made.style.width = `${box.width}px`;
    made.style.height = `${box.height}px`;
  }
}

/**
 * What a key does; false where it does nothing here.
 * @param {View} view
 * @param {string} key
 */
function press(view, key) {
  const [query, column] = view.current;
  const to = moved(key, view.current, view.header.queries.length, view.header.keys.length);
  if (to) {
    view.current = to;
    view.draw();
    view.ring.scrollIntoView({ block: "nearest", inline: "nearest" });
    return true;
  }
  if (key !== "Enter" && key !== " ") return false;
  view.send("picked", { query, key: column });
  return true;
}
