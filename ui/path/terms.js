// Terms of the glossary in captions are underlined, and a click opens their entry. Nothing of the page is changed for it.

(() => {
  /** The terms by their names in every language, in small letters. */
  const NAMES = /** @type {Record<string, string>} */ (/* names */ {});
  if (!globalThis.CSS?.highlights) return;
  const PLACES = "[data-testid=stCaptionContainer], .st-key-path-strip [data-testid=stMarkdownContainer]";
  const marked = new Highlight();
  CSS.highlights.set("heedmap-term", marked);
  const written = Object.keys(NAMES)
    .sort((one, other) => other.length - one.length)
    .map((name) => name.replace(/[^\p{L}\p{N} -]/gu, "\\$&"))
    .map((name) => (/^[\x20-\x7e]+$/.test(name) ? `(?<![\\w-])${name}s?(?![\\w-])` : name));
  const pattern = new RegExp(written.join("|"), "gi");
  /** Underline the first place of each term in each caption. */
  const mark = () => {
    marked.clear();
    for (const caption of document.querySelectorAll(PLACES)) {
      const seen = new Set();
      const texts = document.createTreeWalker(caption, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        const { currentNode: node } = texts;
        if (node.parentElement?.closest("a, code, .katex")) continue;
        for (const { 0: name, index } of (node.nodeValue ?? "").matchAll(pattern)) {
          const term = termOf(name);
          if (!term || seen.has(term)) continue;
          seen.add(term);
          const range = new Range();
          range.setStart(node, index);
          range.setEnd(node, index + name.length);
          marked.add(range);
        }
      }
    }
  };
  const termOf = (/** @type {string} */ name) => NAMES[name.toLowerCase()] ?? NAMES[name.toLowerCase().replace(/s$/, "")];
  let wait = 0;
  const soon = () => {
    clearTimeout(wait);
    wait = setTimeout(mark, 300);
  };
  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(soon).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  addEventListener("click", (event) => {
    const { target, clientX, clientY } = event;
    if (!(target instanceof Element) || !target.closest(PLACES)) return;
    const at = document.caretPositionFromPoint?.(clientX, clientY);
    const found = at && [...marked].find((one) => one instanceof Range && one.isPointInRange(at.offsetNode, at.offset));
    if (!(found instanceof Range)) return;
    const query = new URLSearchParams({ view: "glossary", term: termOf(found.toString()) ?? "" });
    if (document.documentElement.lang !== "en") query.set("lang", document.documentElement.lang);
    open(`./teaching?${query}`, "_blank");
  });
})();
