// Streamlit's writing to the browser's history, held to what the reader asked for last. It stands in the page itself.
//
// Streamlit 1.67 makes an entry for whatever a run says: its page, when the run begins, and its address. A run that was
// under way when the reader pressed Back, Forward or a link says so after it, and would put its own page, or its own
// address, in the place of what was asked for, and cut off the way forward.
//
// Scripts of a page may own keys of its address (which head is looked at): they write them here, without a run, and what
// Streamlit writes later leaves them as they are. Going Back over such a change asks nothing of the server either. What
// Streamlit asks of the server names the address that it wrote itself, so the owned keys are put right on the way.

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
  /** The numbers of two fields of Streamlit's messages: the run that is asked for, and the query that it comes with. */
  const [RERUN, QUERY] = [11, 1];
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

  const send = WebSocket.prototype.send;
  /** @param {string | ArrayBuffer | Blob | ArrayBufferView<ArrayBuffer>} data */
  WebSocket.prototype.send = function (data) {
    const isOurs = owned.keys.length && last === "other" && owned.path === location.pathname && data instanceof Uint8Array;
    send.call(this, isOurs ? changed(data, RERUN, (state) => changed(state, QUERY, upToDate)) : data);
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
   * The query that a run is asked for with, with the owned keys as they are by now.
   * @param {Uint8Array} query
   */
  function upToDate(query) {
    const said = new URL(`?${new TextDecoder().decode(query)}`, location.href);
    return new TextEncoder().encode(new URL(withOwned(said, owned.keys, ownedIn(new URL(location.href))), said).search.slice(1));
  }

  /**
   * A message in Google's protocol buffers with one of its fields changed, which holds bytes. A query that is empty is
   * not written there, so it is added; any other message that lacks the field is as it was.
   * @param {Uint8Array} message
   * @param {number} field its number
   * @param {(value: Uint8Array) => Uint8Array} change
   */
  function changed(message, field, change) {
    const parts = [];
    let [at, isThere] = [0, false];
    while (at < message.length) {
      const start = at;
      const [tag, body] = numberAt(message, at);
      const kind = tag % 8; // 0: a number, 1: eight bytes, 2: so many bytes, 5: four bytes
      const [length, from] = kind === 2 ? numberAt(message, body) : [kind === 1 ? 8 : 4, body];
      at = kind === 0 ? numberAt(message, body)[1] : from + length;
      const isIt = kind === 2 && Math.floor(tag / 8) === field;
      isThere ||= isIt;
      parts.push(isIt ? fieldOf(field, change(message.slice(from, at))) : message.slice(start, at));
    }
    if (!isThere && field === QUERY) parts.push(fieldOf(field, change(new Uint8Array())));
    return Uint8Array.from(parts.flatMap((part) => [...part]));
  }

  /**
   * @param {number} field
   * @param {Uint8Array} value
   */
  function fieldOf(field, value) {
    return [...bytesOf(field * 8 + 2), ...bytesOf(value.length), ...value];
  }

  /**
   * The number that begins at a place, seven bits a byte, and where it ends.
   * @param {Uint8Array} bytes
   * @param {number} at
   * @returns {[number, number]}
   */
  function numberAt(bytes, at) {
    let [number, scale] = [0, 1];
    for (; bytes[at] > 127; at++, scale *= 128) number += (bytes[at] - 128) * scale;
    return [number + bytes[at] * scale, at + 1];
  }

  /**
   * @param {number} number
   * @returns {number[]}
   */
  function bytesOf(number) {
    return number < 128 ? [number] : [(number % 128) + 128, ...bytesOf(Math.floor(number / 128))];
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
    const made = new URL(url);
    for (const key of keys) {
      if (key in values) made.searchParams.set(key, values[key]);
      else made.searchParams.delete(key);
    }
    return [...made.searchParams].length ? shortOf(made) : made.pathname;
  }

  /**
   * @param {URL} url
   */
  function shortOf(url) {
    return `${url.pathname}${url.search}`;
  }
})();
