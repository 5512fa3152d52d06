// The keys of the tour: Left and Right step, R reveals, digits answer; in the presenter view B blanks, C shows
// the controls, and Esc ends it.
// A page that is presented is drawn as large as the window allows: its styles read --present-zoom.

(() => {
  const root = document.documentElement;
  const query = new URLSearchParams(location.search);
  const asked = ["present", "print"].find((view) => query.get(view) === "1");
  if (asked) root.dataset.view = asked;
  /** Layout is done for a page of this width, and then enlarged: at 1920 pixels numbers of 12 become 24. */
  const WIDTH = 960;
  const fit = () => {
    const zoom = root.dataset.view === "present" ? Math.max(1, innerWidth / WIDTH) : 1;
    root.style.setProperty("--present-zoom", String(zoom));
  };
  addEventListener("resize", fit);
  new MutationObserver(() => {
    fit();
    dispatchEvent(new Event("resize")); // pictures are drawn anew, as sharp as they are large
  }).observe(root, { attributeFilter: ["data-view"] });
  fit();
  const find = (/** @type {string} */ selector) => /** @type {HTMLElement | null} */ (document.querySelector(selector));
  const press = (/** @type {string} */ selector) => {
    const found = find(selector);
    found?.click();
    return found !== null;
  };
  const GUESS = "[class*=st-key-path-guess]";
  const ANSWER = "canvas[data-matrix=answer]";
  /** Pick a cell as its own keys do, where all cells stand in one row or column; elsewhere arrows and Enter follow. */
  const pick = (/** @type {HTMLElement} */ canvas, /** @type {number} */ cell) => {
    const [rows, columns] = ["aria-rowcount", "aria-colcount"].map((name) => Number(canvas.getAttribute(name)));
    canvas.focus();
    if (Math.min(rows, columns) > 1 || cell >= rows * columns) return;
    const way = rows > 1 ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
    const keys = [...Array(rows * columns).fill(way[0]), ...Array(cell).fill(way[1]), "Enter"];
    for (const key of keys) canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
  };
  const TYPING = "input:not([type=radio]), textarea, select, [contenteditable=true]";
  const MOVING =
    "canvas, svg, input, [role=slider], [role=tab], [role=radio], [role=grid], [role=listbox], [role=option]";
  /** @param {KeyboardEvent} event */
  const done = (event) => {
    const { key } = event;
    const path = event.composedPath().filter((one) => one instanceof Element);
    if (path[0]?.matches(TYPING)) return false;
    const moves = path.some((one) => one.matches(MOVING));
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const way = key === "ArrowLeft" ? ["path-back a", "previous button"] : ["path-next a", "next button"];
      return !moves && (press(`.st-key-${way[0]}`) || (root.dataset.view === "present" && press(`.st-key-${way[1]}`)));
    }
    if (key === "r" || key === "R") return press(".st-key-path-reveal button");
    if (/^[0-9]$/.test(key)) {
      const field = find(`${GUESS} input`);
      const canvasIn = (/** @type {Element} */ { shadowRoot }) => shadowRoot?.querySelector(ANSWER);
      const cells = [...document.querySelectorAll(`${GUESS} *`)].map(canvasIn).find(Boolean);
      if (field) field.focus(); // the digit is typed into it
      else if (cells instanceof HTMLElement) pick(cells, Number(key) - 1);
      else press(`${GUESS} button:nth-of-type(${key})`);
      return !field;
    }
    if (root.dataset.view !== "present") return false;
    if (/^[bc]$/i.test(key)) {
      root.toggleAttribute(key.toLowerCase() === "b" ? "data-blank" : "data-controls");
      return true;
    }
    return key === "Escape" && press(".st-key-path-end button");
  };
  addEventListener("keyup", ({ key, target }) => {
    // What was typed is sent by now; the keys are the tour's again.
    if (key === "Enter" && target instanceof HTMLInputElement && target.closest(GUESS)) target.blur();
  });
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (done(event)) event.preventDefault();
  });
})();
