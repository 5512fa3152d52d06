// A record on a page of its own: in a notebook's cell, or saved. All that it needs stands in the page.

import { bytesOf, decode } from "../shared/blob.js";
import { ADDRESS, keepRecord, RECORD } from "../shared/local.js";
import { button, element } from "../shared/page.js";

/**
 * What Python sends beside the numbers.
 * @typedef {object} Header
 * @property {string} title
 * @property {string[]} facts
 * @property {Record<string, any>} record what of the header is the record's
 * @property {Record<string, any>} views each view's header
 * @property {Record<"map" | "lines" | "views", string>} words
 */

/** @typedef {import("../shared/local.js").Values} Values */

/**
 * @typedef {{ data: any, parentElement: HTMLElement, setTriggerValue: (name: string, value: unknown) => void }} Run
 * @typedef {(run: Run) => () => void} Draw
 */

/**
 * Draw the record that stands in the page.
 * @param {Record<string, Draw>} draws what draws each view
 */
export function showRecord(draws) {
  const received = decode(bytesOf(/** @type {HTMLElement} */ (document.getElementById("record")).textContent ?? ""));
  /** @type {Header} */
  const header = received.header;
  bringAddress();
  keepRecord({ header: header.record, arrays: received.arrays });
  const { page, places } = build(header);
  document.body.append(page);
  for (const [name, place] of Object.entries(places)) {
    const data = { header: header.views[name], arrays: {} };
    if (header.views[name]) draws[name]({ data, parentElement: place, setTriggerValue: () => {} });
  }
  followTheme();
  tellHeight(page);
}

/**
 * The page's elements, and where each view is drawn. One head is seen as a map or as lines.
 * @param {Header} header
 */
function build({ title, facts, views, record, words }) {
  const page = element("main", "record");
  if (title) page.append(element("h1", "", title));
  for (const fact of facts) page.append(element("p", "fact", fact));
  const places = {
    head_choice: element("div"),
    all_heads: element("section", "wall"), // as wide as its grids may be at least
    heatmap: element("div", "", null, { id: "map", role: "tabpanel" }),
    head_view: element("div", "", null, { id: "lines", role: "tabpanel" }),
  };
  const most = Math.max(...record.kinds.map((/** @type {{ heads: number }} */ kind) => kind.heads));
  places.all_heads.style.setProperty("--most", String(most));
  const tabs = element("div", "tabs", null, { role: "tablist", "aria-label": words.views });
  const panels = [places.heatmap, places.head_view];
  const made = panels.map((panel, order) => {
    const tab = button([words.map, words.lines][order], () => open(order));
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("aria-label", tab.textContent ?? "");
    tab.onkeydown = ({ key }) => {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      open(1 - order);
      made[1 - order].focus();
    };
    return tab;
  });
  const open = (/** @type {number} */ chosen) =>
    made.forEach((tab, order) => {
      tab.setAttribute("aria-selected", String(order === chosen));
      tab.tabIndex = order === chosen ? 0 : -1;
      panels[order].hidden = order !== chosen;
    });
  open(0);
  tabs.append(...made);
  const one = element("section", "one");
  one.append(tabs, ...panels);
  const both = element("div", "both");
  both.append(...(views.all_heads ? [places.all_heads] : []), one);
  page.append(places.head_choice, both);
  return { page, places };
}

/** The system's theme, or the one that a notebook tells its cell; what is drawn on canvases is drawn anew. */
function followTheme() {
  const again = () => window.dispatchEvent(new Event(RECORD));
  matchMedia("(prefers-color-scheme: dark)").onchange = again;
  addEventListener("message", ({ data, source }) => {
    const { theme } = data?.heedmap ?? {};
    if (source !== window.parent || (theme !== "dark" && theme !== "light")) return;
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    again();
  });
}

/**
 * Tell the notebook how high the cell is, whenever that changes and whenever it asks.
 * @param {HTMLElement} page
 */
function tellHeight(page) {
  if (window === window.parent) return;
  const tell = () => {
    const height = Math.ceil(page.getBoundingClientRect().height);
    window.parent.postMessage({ heedmap: { height } }, "*");
  };
  new ResizeObserver(tell).observe(page);
  addEventListener("message", ({ source }) => source === window.parent && tell());
}

/**
 * Bring the address of a page that has no server. A saved page keeps what is looked at behind # in its own address, so
 * that a link shows the same picture and Back undoes; a notebook's cell has no address, and keeps it to itself.
 * @returns {import("../shared/local.js").AddressBar}
 */
function bringAddress() {
  const isOwn = window === window.top && /^(file|https?):$/.test(location.protocol);
  /** @type {Values} */
  let kept = {};
  const tell = () => window.dispatchEvent(new Event(ADDRESS));
  const hash = (/** @type {Values} */ values) => `#${new URLSearchParams(values)}`;
  const values = () => (isOwn ? Object.fromEntries(new URLSearchParams(location.hash.slice(1))) : kept);
  const bar = {
    arrive: () => {},
    isDrawn: () => true,
    values,
    write: (/** @type {Values} */ said) => {
      kept = said;
      if (isOwn) location.hash = hash(said); // which tells, too
      else tell();
    },
    settle: (/** @type {Values} */ said) => {
      if (isOwn && hash(said) !== hash(values())) history.replaceState(null, "", hash(said));
    },
  };
  if (isOwn) addEventListener("hashchange", tell);
  /** @type {{ heedmapAddress?: typeof bar }} */ (/** @type {unknown} */ (window)).heedmapAddress = bar;
  return bar;
}
