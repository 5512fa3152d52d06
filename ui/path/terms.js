// Terms of the glossary in captions are underlined, and each is a link to its entry, by mouse and by keyboard.
// The words stay as they are: the links lie over them, after the caption's own text.

(() => {
  /** The terms by their names in every language, in small letters. */
  const NAMES = /** @type {Record<string, string>} */ (/* names */ {});
  const LINK = "heedmap-term";
  /** What words consist of in languages that put spaces between them. */
  const SPACED = "[[\\p{L}\\p{N}_\\-]--[\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Thai}]]";
  if (!globalThis.CSS?.highlights) return;
  const PLACES = "[data-testid=stCaptionContainer], .st-key-path-strip [data-testid=stMarkdownContainer]";
  const marked = new Highlight();
  CSS.highlights.set("heedmap-term", marked);
  const written = Object.keys(NAMES)
    .sort((one, other) => other.length - one.length)
    .map((name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"))
    .map((name) => (new RegExp(SPACED, "v").test(name) ? `(?<!${SPACED})${name}s?(?!${SPACED})` : name));
  const pattern = new RegExp(written.join("|"), "giv");
  const termOf = (/** @type {string} */ name) =>
    NAMES[name.toLowerCase()] ?? NAMES[name.toLowerCase().replace(/s$/, "")];
  /** The first place of each term in a caption. */
  const found = (/** @type {Element} */ caption) => {
    /** @type {Map<string, Range>} */
    const places = new Map();
    const texts = document.createTreeWalker(caption, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { currentNode: node } = texts;
      if (node.parentElement?.closest("a, code, .katex")) continue;
      for (const { 0: name, index } of (node.nodeValue ?? "").matchAll(pattern)) {
        const term = termOf(name);
        if (!term || places.has(term)) continue;
        const range = new Range();
        range.setStart(node, index);
        range.setEnd(node, index + name.length);
        places.set(term, range);
      }
    }
    return places;
  };
  const link = (/** @type {Element} */ caption, /** @type {string} */ term, /** @type {Range} */ range) => {
    const query = new URLSearchParams({ view: "glossary", term });
    if (document.documentElement.lang !== "en") query.set("lang", document.documentElement.lang);
    const look = { href: `./teaching?${query}`, target: "_blank", className: LINK };
    const made = Object.assign(document.createElement("a"), look);
    made.ariaLabel = range.toString();
    const [at, around] = [range.getBoundingClientRect(), caption.getBoundingClientRect()];
    const zoom = caption.currentCSSZoom ?? 1;
    const sizes = { left: at.left - around.left, top: at.top - around.top, width: at.width, height: at.height };
    for (const [name, size] of Object.entries(sizes)) made.style.setProperty(name, `${size / zoom}px`);
    return made;
  };
  const observer = new MutationObserver(() => soon());
  const mark = () => {
    observer.disconnect();
    marked.clear();
    const captions = [...document.querySelectorAll(PLACES)];
    const places = captions.map(found);
    places.forEach((terms) => terms.forEach((range) => marked.add(range)));
    const links = captions.map((caption, i) => [...places[i]].map(([term, range]) => link(caption, term, range)));
    captions.forEach((caption, i) => {
      const old = [...caption.children].filter((one) => one instanceof HTMLElement && one.classList.contains(LINK));
      if (old.map((one) => one.outerHTML).join() === links[i].map((one) => one.outerHTML).join()) return;
      for (const one of old) one.remove();
      caption.append(...links[i]);
    });
    observer.observe(document.body, { childList: true, subtree: true, characterData: true });
  };
  let wait = 0;
  const soon = () => {
    clearTimeout(wait);
    wait = setTimeout(mark, 300);
  };
  addEventListener("DOMContentLoaded", mark);
  addEventListener("resize", soon);
})();
