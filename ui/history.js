// Streamlit's writing to the browser's history, held to what the reader asked for last. It stands in the page itself.
//
// Streamlit 1.67 makes an entry for whatever a run says: its page, when the run begins, and its address. A run that was
// under way when the reader pressed Back, Forward or a link says so after it, and would put its own page, or its own
// address, in the place of what was asked for, and cut off the way forward.
//
// Scripts of a page may own keys of its address (which head is looked at): they write them here, without a run, and what
// Streamlit writes later leaves them as they are. Going Back over such a change asks nothing of the server either.

(() => {
  /**
   * What the reader did last: "opened" this address, which a run may say in newer words; "moved" through the history,
   * which holds all that is to be shown; pressed a link and "left", which makes one entry, or has "arrived" by it; or
   * something else, of which only the run knows what it makes.
   * @type {"opened" | "moved" | "left" | "arrived" | "other"}
   */
  let last = "opened";
  /** The page that a link asked for. */
  let asked = "";
  /** The address as it was before the history moved. */
  let before = location.href;
  const push = history.pushState.bind(history);
  const replace = history.replaceState.bind(history);

  /** @typedef {Record<string, string>} Values */

  /** The keys that scripts own, on which page, and their values, which the address bar says, or is about to. */
  const owned = { keys: /** @type {string[]} */ ([]), path: "", values: /** @type {Values} */ ({}) };
  /** Of which arrival at the page, as the server counts them, and whether the scripts wrote since the reader came. */
  let [arrival, wrote] = [-1, false];
  /** Whether the reader asked for an address that no run has answered yet. */
  let ahead = true;
  /** What pages were left with, by their paths: the server may not have been told. @type {Map<string, { keys: string[], values: Values }>} */
  const known = new Map();

  addEventListener("popstate", (event) => {
    const [from, to] = [new URL(before), new URL(location.href)];
    before = to.href;
    if (event.isTrusted && owned.keys.length && from.pathname === to.pathname && !differs(from, to)) {
      event.stopImmediatePropagation(); // Streamlit would run the page
      [last, wrote] = ["other", true];
      tell(ownedIn(to));
      return;
    }
    if (last === "left" && !event.isTrusted) last = "arrived"; // a link of ours
    else last = "moved";
    [ahead, wrote] = [true, false];
  });
  for (const kind of ["pointerup", "keydown", "click", "change", "drop"]) addEventListener(kind, acted, true);

  for (const kind of ["pointerover", "pointerdown", "focusin"]) addEventListener(kind, completed, true);

  history.pushState = (state, title, url) => {
    if (isLate(url)) return;
    const to = kept(url);
    if (to === null) return;
    (last === "opened" || last === "arrived" ? replace : push)(state, title, to);
    before = location.href;
    if (last === "left") last = "arrived";
  };
  history.replaceState = (state, title, url) => {
    const to = isLate(url) ? null : kept(url);
    if (to === null) return;
    replace(state, title, to);
    before = location.href;
  };

  /** What the scripts of a page do with the keys that they own. */
  const address = {
    /**
     * The server has drawn the page for an arrival there, with what the address said of these keys.
     * @param {string[]} keys
     * @param {number} number
     * @param {Values} values
     */
    arrive(keys, number, values) {
      Object.assign(owned, { keys, path: location.pathname });
      if (number === arrival) return;
      arrival = number;
      ahead = false;
      tell(wrote ? ownedIn(new URL(location.href)) : values);
    },
    /** The scripts leave the page. */
    leave() {
      owned.keys = [];
    },
    arrival: () => arrival,
    values: () => (ahead && wrote ? ownedIn(new URL(location.href)) : owned.values),
    /**
     * The reader has changed something: one entry.
     * @param {Values} values all of them
     */
    write(values) {
      const to = withOwned(new URL(location.href), owned.keys, values);
      if (to !== shortOf(new URL(location.href))) push({}, "", to);
      before = location.href;
      wrote = true;
      tell(values);
    },
    /**
     * Say the same in other words, in the same entry, unless the reader has asked for another address meanwhile.
     * @param {Values} values
     */
    settle(values) {
      if (ahead || !owned.keys.length || owned.path !== location.pathname) return;
      const to = withOwned(new URL(location.href), owned.keys, values);
      if (to === shortOf(new URL(location.href))) return;
      replace({}, "", to);
      before = location.href;
      owned.values = values;
      known.set(owned.path, { keys: owned.keys, values });
    },
  };
  Object.assign(globalThis, { heedmapAddress: address });

  /**
   * @param {Event} event
   */
  function acted(event) {
    const { altKey, ctrlKey, metaKey, shiftKey, button } = /** @type {KeyboardEvent & PointerEvent} */ (event);
    if (altKey || ctrlKey || metaKey || button > 2) return; // the browser's own: Alt and an arrow, the button for Back
    last = "other";
    const link = event.type === "click" && !shiftKey && linkOf(event);
    if (!link || link.target || link.origin !== location.origin) return;
    last = "left";
    [ahead, wrote] = [true, false];
    const href = link.getAttribute("href") ?? "";
    asked = new URL(/^(\?|$)/.test(href) ? `./${href}` : href, location.href).pathname; // "?..." is the first page
    if (link.dataset.ours === undefined) return;
    event.preventDefault(); // Streamlit's link would lead to the address that the server knows, another one loads anew
    event.stopImmediatePropagation();
    push({}, "", link.href);
    dispatchEvent(new PopStateEvent("popstate"));
  }

  /**
   * Links say what they lead to before they are pressed, or opened apart. The menu's link to the first page has no path
   * in Streamlit: it would be the open page with the first one's query. A link to a page whose keys were changed since
   * the server drew the link leads there as it was left.
   * @param {Event} event
   */
  function completed(event) {
    const link = linkOf(event);
    if (link?.dataset.testid !== "stPageLink-NavLink") return;
    const href = link.getAttribute("href") ?? "./";
    if (/^(\?|$)/.test(href)) link.setAttribute("href", `./${href}`);
    const to = new URL(link.getAttribute("href") ?? "./", location.href);
    const found = known.get(to.pathname);
    if (!found || to.pathname === location.pathname || !link.closest("[data-testid=stSidebar]")) return;
    const newer = withOwned(to, found.keys, found.values);
    if (newer === shortOf(to)) return;
    link.setAttribute("href", newer);
    link.dataset.ours = "";
  }

  /**
   * @param {Event} event
   */
  function linkOf(event) {
    return event.composedPath().find((one) => one instanceof HTMLAnchorElement);
  }

  /**
   * Whether what is written is not what was asked for.
   * @param {string | URL | null} [url]
   */
  function isLate(url) {
    return last === "moved" || (last === "left" && new URL(url ?? "", location.href).pathname !== asked);
  }

  /**
   * What a run writes, with the owned keys as they are by now; null where that stands there already.
   * @param {string | URL | null} [url]
   */
  function kept(url) {
    const [here, to] = [new URL(location.href), new URL(url ?? "", location.href)];
    if (!owned.keys.length || last !== "other" || owned.path !== to.pathname || here.pathname !== to.pathname) return url;
    const now = withOwned(to, owned.keys, ownedIn(here));
    return now === shortOf(here) || !differs(here, new URL(now, here)) ? null : now;
  }

  /**
   * New values of the owned keys, for whoever draws.
   * @param {Values} values
   */
  function tell(values) {
    owned.values = values;
    known.set(owned.path, { keys: owned.keys, values });
    dispatchEvent(new Event("heedmap-address"));
  }

  /**
   * What an address says of the owned keys.
   * @param {URL} url
   */
  function ownedIn(url) {
    return Object.fromEntries([...url.searchParams].filter(([key]) => owned.keys.includes(key)));
  }

  /**
   * Whether two addresses of a page differ in more than owned keys.
   * @param {URL} one
   * @param {URL} other
   */
  function differs(one, other) {
    const rest = (/** @type {URL} */ url) => JSON.stringify([...url.searchParams].filter(([key]) => !owned.keys.includes(key)).sort());
    return rest(one) !== rest(other);
  }

  /**
   * An address with these keys as `values` say, without its origin.
   * @param {URL} url
   * @param {string[]} keys
   * @param {Values} values
   */
  function withOwned(url, keys, values) {
    const changed = new URL(url);
    for (const key of keys) {
      if (key in values) changed.searchParams.set(key, values[key]);
      else changed.searchParams.delete(key);
    }
    return [...changed.searchParams].length ? shortOf(changed) : changed.pathname;
  }

  /**
   * @param {URL} url
   */
  function shortOf(url) {
    return `${url.pathname}${url.search}`;
  }
})();
