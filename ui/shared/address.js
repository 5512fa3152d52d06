// Keys of the address that scripts of a page own (which head is looked at): they stand behind #, and no server hears of
// them. A link from elsewhere may name them before #, as addresses of before do: the server says so once, and drops
// them there. What sets a key of the address by `data-sets`, such as a bar of a chart, is pressed here too.

(() => {
  /** @typedef {Record<string, string>} Values */

  /** @typedef {{ session: string, arrival: number, values: Values }} Arrival As the session counts; "" is any one. */

  /** Which arrival at the page is drawn; whether the reader asked for another address since. */
  let [drawn, ahead] = [/** @type {Arrival} */ ({ session: "", arrival: 0, values: {} }), true];
  /** Sessions that drew the page before a server was started again. @type {Set<string>} */
  const before = new Set();
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

  /**
   * A press on what sets a key of the address opens the address that is there by now, with that key.
   * @param {Event} event
   */
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
       * The server has drawn the page for an arrival there; its values are owned keys that stood before #. What
       * Streamlit draws again of a run before, while it takes it away, is no arrival.
       * @param {Arrival} found
       */
      arrive(found) {
        const { session, arrival, values: said } = found;
        const isEarlier = before.has(session) || (session === drawn.session && arrival < drawn.arrival);
        if ((session && isEarlier) || this.isDrawn(found)) return;
        if (session !== drawn.session) before.add(drawn.session);
        [drawn, ahead] = [found, false];
        if (Object.keys(said).length) enter("replaceState", said);
        tell();
      },
      /** Whether a component was sent for the arrival that is drawn. @param {Arrival} found */
      isDrawn: ({ session, arrival }) => session === drawn.session && arrival === drawn.arrival,
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
