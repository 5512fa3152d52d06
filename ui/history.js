// Streamlit's writing to the browser's history, held to what the reader asked for last. It stands in the page itself.
//
// Streamlit 1.67 makes an entry for whatever a run says: its page, when the run begins, and its address. A run that was
// under way when the reader pressed Back, Forward or a link says so after it, and would put its own page, or its own
// address, in the place of what was asked for, and cut off the way forward.

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
  const push = history.pushState.bind(history);
  const replace = history.replaceState.bind(history);

  addEventListener("popstate", () => {
    last = "moved";
  });
  for (const kind of ["pointerup", "keydown", "click", "change", "drop"]) addEventListener(kind, acted, true);

  for (const kind of ["pointerover", "pointerdown", "focusin"]) addEventListener(kind, completed, true);

  history.pushState = (state, title, url) => {
    if (isLate(url)) return;
    (last === "opened" || last === "arrived" ? replace : push)(state, title, url);
    if (last === "left") last = "arrived";
  };
  history.replaceState = (state, title, url) => {
    if (!isLate(url)) replace(state, title, url);
  };

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
    const href = link.getAttribute("href") ?? "";
    asked = new URL(/^(\?|$)/.test(href) ? `./${href}` : href, location.href).pathname; // "?..." is the first page
  }

  /**
   * The menu's link to the first page has no path in Streamlit: opened apart, it would be the open page with the first
   * one's query.
   * @param {Event} event
   */
  function completed(event) {
    const link = linkOf(event);
    const href = link?.getAttribute("href") ?? "./";
    if (link?.dataset.testid === "stPageLink-NavLink" && /^(\?|$)/.test(href)) link.setAttribute("href", `./${href}`);
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
})();
