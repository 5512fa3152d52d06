// Streamlit's writing to the browser's history, held to what the reader asked for last: see docs/decisions/patches.md.
(() => {
  /**
   * What the reader did last: "opened" this address, which a run may say in newer words; "moved" through the history;
   * pressed a link and "left", which makes one entry, or has "arrived" by it; or "other", which is the run's to write.
   * @type {"opened" | "moved" | "left" | "arrived" | "other"}
   */
  let last = "opened";
  let [asked, byMenu, before] = ["", false, location.href]; // of a link: its page, whether the menu's; the last address
  const owned = /** @type {any} */ (globalThis).heedmapAddress;
  const [push, replace] = [history.pushState.bind(history), history.replaceState.bind(history)];
  addEventListener("popstate", (event) => {
    const from = new URL(before);
    before = location.href;
    const isBehindHash = event.isTrusted && from.pathname === location.pathname && from.search === location.search;
    if (isBehindHash) event.stopImmediatePropagation(); // Streamlit would run the page
    else owned.go();
    last = isBehindHash ? "other" : last === "left" && !event.isTrusted ? "arrived" : "moved";
  });
  for (const kind of ["pointerup", "keydown", "click", "change", "drop"]) addEventListener(kind, acted, true);
  for (const kind of ["pointerover", "pointerdown", "focusin"]) addEventListener(kind, completed, true);
  history.pushState = (_state, _title, url) => write(url, last === "opened" || last === "arrived" ? replace : push);
  history.replaceState = (_state, _title, url) => write(url, replace);
  /** @param {string | URL | null | undefined} url @param {(data: any, unused: string, url: string) => void} how */
  function write(url, how) {
    const to = new URL(url ?? "", location.href);
    if (last === "moved" || (last === "left" && to.pathname !== asked)) return; // not what was asked for
    const isHere = to.pathname === location.pathname;
    if (!isHere && byMenu) to.hash = owned.leftAt(to.pathname);
    else if (isHere && last !== "left" && !String(url).includes("#")) to.hash = location.hash;
    how({}, "", `${to.pathname}${to.search}${to.hash}`);
    before = location.href;
    if (last === "left") last = "arrived";
  }
  function acted(/** @type {Event} */ event) {
    const { altKey, ctrlKey, metaKey, shiftKey, button } = /** @type {KeyboardEvent & PointerEvent} */ (event);
    if (altKey || ctrlKey || metaKey || button > 2) return; // the browser's own: Alt and an arrow, the button for Back
    last = "other";
    const link = event.type === "click" && !shiftKey && linkOf(event);
    if (!link || link.target || link.origin !== location.origin) return;
    const to = target(link);
    [last, asked, byMenu] = ["left", to.pathname, isMenus(link)];
    if (to.pathname === location.pathname && to.search === location.search) owned.write({}); // as it is at first
    owned.go();
    if (link.dataset.ours === undefined) return;
    event.preventDefault(); // a link in a text would load the app anew
    event.stopImmediatePropagation();
    push({}, "", link.href);
    dispatchEvent(new PopStateEvent("popstate"));
  }
  /** Links say where they lead before they are opened apart: the menu's to a page as it was left. */
  function completed(/** @type {Event} */ event) {
    const link = linkOf(event);
    if (link?.dataset.testid !== "stPageLink-NavLink") return;
    const to = target(link);
    if (isMenus(link) && to.pathname !== location.pathname) to.hash = owned.leftAt(to.pathname);
    link.setAttribute("href", `${to.pathname}${to.search}${to.hash}`);
  }
  const linkOf = (/** @type {Event} */ event) => event.composedPath().find((one) => one instanceof HTMLAnchorElement);
  const isMenus = (/** @type {Element} */ link) => link.closest("[data-testid=stSidebar]") !== null;
  function target(/** @type {HTMLAnchorElement} */ link) {
    const href = link.getAttribute("href") ?? ""; // Streamlit's to the first page has no path
    return new URL(/^(\?|$)/.test(href) ? `./${href}` : href, location.href);
  }
})();
