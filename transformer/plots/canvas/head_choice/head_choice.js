// Which kind of attention, layer and head is looked at, as buttons, and what is known of that head.

import { component } from "../shared/component.js";
import { element, explained, say } from "../shared/page.js";
import { addressOf, MEAN, numberOf } from "../shared/local.js";

const NAMES = ["kind", "layer", "head"]; // the events
const PAUSE = 250; // milliseconds without another choice before the server draws what follows it

/**
 * A group of buttons: kinds, layers or heads.
 * @typedef {{ label: string, help: string, names: Record<string, string> }} Picker
 */

/** @typedef {{ label: string, path: string, query: Record<string, string>, along: Record<string, string> }} Link */

/** @typedef {{ sentences: [text: string, help: string][], links: Link[] }} Known */

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {Picker[]} pickers
 * @property {Record<string, Known[]>} known by site, one entry a head
 * @property {Link[]} links
 * @property {Record<"help" | "more", string>} words
 */

/**
 * @typedef {import("../shared/component.js").Frame & ReturnType<typeof build> & {
 *   header: Header,
 *   record: import("../shared/local.js").RecordOfPage,
 *   choice: import("../shared/local.js").Choice,
 *   asked: string,
 *   waiting: number,
 * }} View
 * `asked` is the choice that the server was last told of, `waiting` the timer until it is told of another.
 */

/** @type {import("../shared/local.js").Local} */
const local = {
  owns: true,
  seen: (header, record, choice, allowed) => ({ header: { ...header, record, choice }, arrays: {}, options: allowed }),
  acted(name, value, { kind }, { kinds }) {
    if (name === "kind") return { kind: kinds[value].name };
    if (name === "layer") return { layer: layersOf(kinds)[value] ?? String(value) };
    return name === "head" ? { head: value === kind.heads ? MEAN : String(value) } : null;
  },
};

export default component("head-choice", (frame) => {
  const view = /** @type {View} */ (Object.assign(frame, build(frame.root), { asked: "", waiting: 0 }));
  return {
    receive: ({ header }) => Object.assign(view, { header, record: header.record, choice: header.choice }),
    adopt: (options) => ask(view, options),
    draw: () => draw(view),
    close: () => clearTimeout(view.waiting),
  };
}, local);

/**
 * The view's elements, still without words.
 * @param {HTMLElement} root
 */
function build(root) {
  const groups = [0, 1, 2].map(() => {
    const name = element("div", "name");
    const buttons = element("div", "options", null, { role: "radiogroup" });
    const box = element("div", "group");
    box.append(name, buttons);
    return { box, name, buttons, built: "" };
  });
  const pickers = element("div", "pickers");
  pickers.append(...groups.map(({ box }) => box));
  const [known, said, more] = [element("div", "known"), element("div", "said"), element("details", "more")];
  more.append(element("summary"), element("div", "links"));
  known.append(said, more);
  root.append(pickers, known);
  return { groups, known, said, more };
}

/** @param {View} view */
function draw(view) {
  const { header, record, choice } = view;
  const { kind, layer, head } = choice;
  const [kinds, layers, heads] = header.pickers;
  const numbers = (/** @type {number} */ count) => Array.from({ length: count }, (_, order) => String(order));
  const called = layersOf(record.kinds);
  const { groups } = view;
  groups[0].box.hidden = called.length > 0;
  if (called.length) {
    const names = called.map((one) => layers.names[one] ?? one);
    show(view, 1, names, called.indexOf(kind.layers?.[layer] ?? ""));
  } else {
    show(view, 0, record.kinds.map(({ name }) => kinds.names[name] ?? name), record.kinds.indexOf(kind));
    groups[1].box.hidden = kind.numbers?.length === 1;
    show(view, 1, kind.sites.map((_, order) => numberOf(kind, order)), layer);
  }
  show(view, 2, [...numbers(kind.heads), ...(kind.heads > 1 ? [heads.names[MEAN]] : [])], head ?? kind.heads);
  drawKnown(view);
}

/**
 * What is known of the head. All heads' texts lie over each other, unseen but for one, so that a choice moves nothing.
 * @param {View} view
 */
function drawKnown(view) {
  const { header, choice: { kind, layer, head }, known, more, said } = view;
  const written = JSON.stringify(header.known);
  if (known.dataset.written !== written) {
    known.dataset.written = written;
    const texts = Object.entries(header.known).flatMap(([site, each]) =>
      each.map((one, at) => toldOf(one, `${site} ${at}`, header.words.help)));
    said.replaceChildren(...texts);
  }
  for (const one of /** @type {HTMLElement[]} */ ([...said.children])) {
    one.style.visibility = one.dataset.head === `${kind.sites[layer]} ${head}` ? "visible" : "hidden";
  }
  const found = head === null ? undefined : header.known[kind.sites[layer]]?.[head];
  const links = [...(found?.links ?? []), ...header.links].map((link) => made(view, link));
  more.hidden = !links.length;
  say(more.children[0], header.words.more);
  more.children[1].replaceChildren(...links);
}

/**
 * @param {Known} known
 * @param {string} head
 * @param {string} name what a question mark is called
 */
function toldOf({ sentences }, head, name) {
  const said = element("div", "", null, { "data-head": head });
  for (const [text, help] of sentences) {
    const line = element("p", "", text);
    if (help) line.append(" ", explained(help, name));
    said.append(line);
  }
  return said;
}

/**
 * What addresses call the layers of all kinds, where they have names that tell the kind too.
 * @param {import("../shared/local.js").Kind[]} kinds
 */
function layersOf(kinds) {
  return kinds.flatMap(({ layers }) => layers ?? []);
}

/**
 * One group: its buttons are made when their names change, so that the keyboard stays where it is.
 * @param {View} view
 * @param {number} order
 * @param {string[]} texts
 * @param {number} chosen
 */
function show(view, order, texts, chosen) {
  const group = view.groups[order];
  const { label, help } = view.header.pickers[order];
  const wanted = JSON.stringify([label, help, texts]);
  if (group.built !== wanted) {
    group.built = wanted;
    group.name.replaceChildren(label, ...(help ? [" ", explained(help, view.header.words.help)] : []));
    group.buttons.setAttribute("aria-label", label);
    group.buttons.replaceChildren(...texts.map((text, at) => option(view, order, text, at)));
  }
  group.buttons.querySelectorAll("input").forEach((one, at) => (one.checked = at === chosen));
}

/**
 * @param {View} view
 * @param {number} order
 * @param {string} text
 * @param {number} at
 */
function option(view, order, text, at) {
  const one = element("label", "button", text);
  const input = element("input", "", null, { type: "radio", name: NAMES[order] });
  input.onchange = () => view.send(NAMES[order], at);
  one.append(input);
  return one;
}

/**
 * A link with the choice as it is now; history.js follows it without loading the app anew.
 * @param {View} view
 * @param {Link} link
 */
function made({ choice, record }, { label, path, query, along }) {
  const said = addressOf(choice, record);
  const moving = Object.entries(along).filter(([key]) => key in said);
  const all = new URLSearchParams([...Object.entries(query), ...moving.map(([key, name]) => [name, said[key]])]);
  const link = element("a", "", label, { "data-ours": "" });
  link.href = `${new URL(path, location.href).pathname}?${all}`;
  return link;
}

/**
 * Let the server draw what follows the choice, where it drew that for another one, once no further choice is made.
 * @param {View} view
 * @param {{ asks?: boolean, drawn?: [string, number, number | null] }} options
 */
function ask(view, { asks, drawn }) {
  clearTimeout(view.waiting);
  const { kind, layer, head } = view.choice;
  const now = JSON.stringify([kind.name, layer, head]);
  if (now === JSON.stringify(drawn)) view.asked = "";
  else if (asks && now !== view.asked) {
    view.waiting = setTimeout(() => {
      view.asked = now;
      view.send("asked", now);
    }, PAUSE);
  }
}
