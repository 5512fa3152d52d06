// What is too small on a page that is presented, and what of its controls is still to be seen.
// Numbers on canvases are noted as they are written: a canvas does not tell.

(() => {
  const write = CanvasRenderingContext2D.prototype.fillText;
  /** @type {Map<HTMLCanvasElement, Map<string, number>>} */
  const written = new Map();
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    const { a, b } = this.getTransform(); // turned texts have their scale in both
    const size = parseFloat(/([\d.]+)px/.exec(this.font)?.[1] ?? "0") * Math.hypot(a, b);
    if (/\d/.test(text)) written.set(this.canvas, (written.get(this.canvas) ?? new Map()).set(text, size));
    return write.call(this, text, ...rest);
  };
  const seen = (/** @type {Element} */ one) => {
    const { width, height } = one.getBoundingClientRect();
    return width > 0 && height > 0 && one.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  };
  const size = (/** @type {Element} */ one) => {
    const plot = /** @type {HTMLElement | null} */ (one.closest(".js-plotly-plot")); // which a transform enlarges
    const scale = plot ? plot.getBoundingClientRect().width / plot.offsetWidth : (one.currentCSSZoom ?? 1);
    return parseFloat(getComputedStyle(one).fontSize) * scale;
  };
  const TOOLS = "button:not(.word), select, input, summary, [role=tab], [role=radio]";
  const KEPT = ".st-key-path-end, .st-key-path-strip, .st-key-chips";
  globalThis.presented = (/** @type {number} */ least, /** @type {number} */ leastFormula) => {
    /** @type {unknown[]} */
    const found = [];
    for (const [canvas, texts] of written) {
      if (!canvas.isConnected || !seen(canvas)) continue;
      const scale = canvas.getBoundingClientRect().width / canvas.width;
      for (const [text, px] of texts) if (px * scale < least) found.push([canvas.className, text, px * scale]);
    }
    const walk = (/** @type {ParentNode} */ root) => {
      for (const one of root.querySelectorAll("*")) {
        if (one.shadowRoot) walk(one.shadowRoot);
        if (!seen(one) || one.closest(KEPT)) continue;
        if (one.matches(TOOLS)) found.push(["control", one.textContent]);
        if (one.matches(".katex") && size(one) < leastFormula) found.push(["formula", one.textContent, size(one)]);
        if (one.closest(".katex, style, script")) continue;
        const isNumber = (node) => node.nodeType === Node.TEXT_NODE && /\d/.test(node.nodeValue ?? "");
        const numbers = [...one.childNodes].filter(isNumber);
        if (numbers.length && size(one) < least) found.push([one.tagName, one.textContent, size(one)]);
      }
    };
    const main = document.querySelector("[data-testid=stMain]");
    if (main) walk(main);
    return found;
  };
})();
