// Keys of the address that scripts of a page own (which head is looked at): they stand behind #, and no server hears of them.
// A link from elsewhere may name them before #, as addresses of before do: the server says so once, and drops them there.
// What sets a key of the address by `data-sets`, such as a bar of a chart, is pressed here too.

(() => {
  /** @typedef {Record<string, string>} Values */

  /** Which arrival at the page is drawn, as the server counts them; whether the reader asked for another address since. */
  let [arrival, ahead] = [-1, true];
  /** What each page was left with behind #, by its path. @type {Map<string, string>} */
  const left = new Map();
  const tell = () => dispatchEvent(new Event("heedmap-address"));
  const values = () => /** @type {Values} */ (Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  const placeOf = (/** @type {Values} */ said) => `${location.pathname}${location.search}#${new URLSearchParams(said)}`;
  /**
   * @param {"pushState" | "replaceState"} how
   * @param {Values} said
   */
  const enter = (how, said) => {
    if (placeOf(said) !== placeOf(values())) history[how](history.state, "", placeOf(said));
    left.set(location.pathname, location.hash);
  };

  /** A press on what sets a key of the address opens the address that is there by now, with that key. @param {Event} event */
  const set = (event) => {
    const pressed = event.composedPath().find((one) => one instanceof HTMLElement && one.dataset.sets);
    if (!(pressed instanceof HTMLElement)) return;
    const to = new URL(location.href);
    for (const [key, value] of new URLSearchParams(pressed.dataset.sets)) to.searchParams.set(key, value);
    history.pushState(history.state, "", to.href);
    dispatchEvent(new PopStateEvent("popstate"));
  };

  addEventListener("hashchange", tell);
  addEventListener("click", set);
  Object.assign(globalThis, {
    heedmapAddress: {
      /**
       * The server has drawn the page for an arrival there; `said` are owned keys that stood before #.
       * @param {number} number
       * @param {Values} said
       */
      arrive(number, said) {
        if (number === arrival) return;
        [arrival, ahead] = [number, false];
        if (Object.keys(said).length) enter("replaceState", said);
        tell();
      },
      arrival: () => arrival,
      values,
      /** The reader has changed something: one entry. @param {Values} said all of them */
      write(said) {
        enter("pushState", said);
        tell();
      },
      /** Say the same in other words, unless the reader has asked for another address. @param {Values} said */
      settle(said) {
        if (!ahead) enter("replaceState", said);
      },
      /** The reader asks for another address. */
      go: () => (ahead = true),
      /** What a page was left with. @param {string} path */
      leftAt: (path) => left.get(path) ?? "",
    },
  });
})();
