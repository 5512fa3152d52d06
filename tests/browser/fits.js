// What of a page does not fit: cut or overlapping texts, small type, drawings outside their boxes, and what its first
// screen holds.
async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const drawing = () => document.querySelector("[data-testid=stSkeleton], [data-testid=stSpinner]");
  const look = () => [...document.querySelectorAll("canvas, svg, p, button")].map((one) => {
    const { left, top, width, height } = one.getBoundingClientRect();
    return [left, top, width, height].map(Math.round).join();
  }).join(";");
  for (let before = "", still = 0, frames = 0; still < 4 && frames < 300; frames++) {
    await frame();
    const now = look();
    still = now === before && !drawing() ? still + 1 : 0;
    before = now;
  }

  const above = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  const chain = (node) => {
    const all = [];
    for (let at = node; at; at = above(at)) all.push(at);
    return all;
  };
  const styles = new Map();
  const style = (node) => styles.get(node) ?? styles.set(node, getComputedStyle(node)).get(node);
  const showsBar = (node) => !/^(auto|rgba\(0, 0, 0, 0\))/.test(style(node).scrollbarColor);
  const frameOf = (node) => {
    const names = [node.dataset?.testid, node.className?.baseVal ?? node.className];
    return names.filter(Boolean).join(" ").slice(0, 60);
  };
  const ofTest = (...names) => names.map((name) => `[data-testid=${name}]`).join(", ");
  const roots = `html, body, #root, .stApp, ${ofTest("stAppViewContainer", "stMain", "stSidebarContent")}`;
  const isRoot = (node) => node.matches(roots);
  const isHeard = (node) => style(node).clipPath === "inset(50%)" || style(node).clip.startsWith("rect(");
  const bars = ofTest("stHeader", "stElementToolbar");
  const ignored = `style, script, title, noscript, canvas, .katex-mathml, ${bars}`;
  const within = (node, selector) => chain(node).some((one) => one.matches?.(selector));

  const texts = [], cut = new Set(), small = new Set();
  const scrolled = [];
  const visit = (root) => {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      if (node.shadowRoot) visit(node.shadowRoot);
      if (node.nodeType === Node.TEXT_NODE) text(node, node.parentElement ?? root.host);
      else if (["auto", "scroll"].includes(style(node).overflowX) && !isRoot(node)) scrolled.push(node);
      else if (node.matches(".katex-display")) scrolled.push(node);
    }
  };
  const text = (node, element) => {
    const said = node.textContent.trim();
    if (!said || !element || !element.checkVisibility() || within(element, ignored)) return;  // not in a closed fold
    const range = document.createRange();
    range.selectNodeContents(node);
    const whole = range.getBoundingClientRect();
    if (whole.width < 2 || whole.height < 2 || whole.right <= 0 || style(element).visibility !== "visible") return;
    const all = chain(element);
    if (all.some((one) => isHeard(one) || Number(style(one).opacity) === 0)) return;
    const seen = { left: whole.left, right: whole.right, top: whole.top, bottom: whole.bottom };
    const katex = element.closest(".katex");
    const isCut = (overflow, before, after) => ["hidden", "clip"].includes(overflow) && !katex && (before || after);
    for (const one of all) {
      const [x, y] = [style(one).overflowX, style(one).overflowY];
      if ((x === "visible" && y === "visible") || isRoot(one)) continue;
      if (!one.clientWidth && one instanceof SVGElement) continue;
      const box = one.getBoundingClientRect();
      const wide = isCut(x, whole.left < box.left - 1.5, whole.right > box.right + 1.5);
      const tall = isCut(y, whole.top < box.top - 4, whole.bottom > box.bottom + 4);
      if (wide || tall) cut.add(`“${said.slice(0, 50)}” in ${frameOf(one)}`);
      seen.left = Math.max(seen.left, box.left);
      seen.right = Math.min(seen.right, box.right);
      seen.top = Math.max(seen.top, box.top);
      seen.bottom = Math.min(seen.bottom, box.bottom);
    }
    if (seen.right - seen.left < 1 || seen.bottom - seen.top < 1) return;
    const isPast = whole.right > innerWidth + 1;
    if (isPast && !all.some((one) => !isRoot(one) && style(one).overflowX !== "visible")) {
      cut.add(`“${said.slice(0, 50)}” past the window`);
    }
    const matrix = element instanceof SVGGraphicsElement ? element.getScreenCTM() : null;
    const size = parseFloat(style(element).fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1);
    if (size < 9.95 && !katex && !element.closest("sub, sup")) {
      small.add(`${size.toFixed(1)} px “${said.slice(0, 40)}”`);
    }
    const lines = [...range.getClientRects()].map((line) => ({
      left: Math.max(line.left, seen.left), right: Math.min(line.right, seen.right),
      top: Math.max(line.top, seen.top), bottom: Math.min(line.bottom, seen.bottom),
    })).filter((line) => line.right - line.left > 2 && line.bottom - line.top > 2);
    texts.push({ said, element, lines, seen, owner: katex ?? element });
  };
  visit(document.body);

  for (const one of scrolled) {
    const box = one.getBoundingClientRect();
    const isFormula = one.matches(".katex-display");
    if (one.scrollWidth <= one.clientWidth + (isFormula ? 4 : 1) || box.width < 2 || box.height < 2) continue;
    if (showsBar(one) && !isFormula) continue;
    const isUnseen = (other) => isHeard(other) || style(other).visibility !== "visible";
    if (!one.checkVisibility() || chain(one).some(isUnseen)) continue;
    if (one.matches("input, textarea")) continue;
    cut.add(`${one.scrollWidth} of ${one.clientWidth} px: ${frameOf(one)} ${one.textContent.trim().slice(0, 40)}`);
  }

  const overlapping = new Set();
  const pieces = texts.flatMap((one) => one.lines.map((line) => ({ ...line, one }))).sort((a, b) => a.top - b.top);
  pieces.forEach((a, i) => {
    for (let j = i + 1; j < pieces.length && pieces[j].top < a.bottom; j++) {
      const b = pieces[j];
      if (a.one.owner === b.one.owner) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const tall = Math.min(a.bottom, b.bottom) - b.top;
      if (wide < 3 || tall < 0.4 * Math.min(a.bottom - a.top, b.bottom - b.top)) continue;
      if (a.one.element.contains(b.one.element) || b.one.element.contains(a.one.element)) continue;
      const [x, y] = [Math.max(a.left, b.left) + wide / 2, b.top + tall / 2];
      const covers = document.elementFromPoint(x, y);
      const isOpaque = (node) => /^rgb\(/.test(style(node).backgroundColor) && style(node).zIndex > 0;
      const isLayer = ({ position }, node) => position === "fixed" || (position === "absolute" && isOpaque(node));
      const layer = (node) => chain(node).find((up) => isLayer(style(up), up));
      if (layer(a.one.element) !== layer(b.one.element) && covers) continue;
      overlapping.add(`“${a.one.said.slice(0, 30)}” and “${b.one.said.slice(0, 30)}”`);
    }
  });

  const inFirst = (box) => {
    return box.bottom > 0 && (box.top + box.bottom) / 2 < innerHeight && box.right > 0 && box.left < innerWidth;
  };
  const main = document.querySelector("[data-testid=stMain]");
  const roles = ["combobox", "slider", "checkbox", "switch"].map((role) => `[role=${role}]`).join(", ");
  const operated = `button, a[href]:not(.heedmap-term), input, textarea, select, summary, ${roles}, svg [role=button]`;
  const grouping = ofTest("stButtonGroup", "stSlider", "stNumberInput", "stSelectbox");
  const group = `[role=radiogroup], [role=tablist], [role=group], [role=toolbar], ${grouping}`;
  const uncounted = `${ofTest("stSidebar", "stTextInput", "stTextArea")}, ${bars}, .modebar, .heedmap-term`;
  const isStop = (one) => one.tabIndex >= 0 && one.getBoundingClientRect().width > 1;
  const stops = (node) => [...node.querySelectorAll("*")].filter(isStop).length;
  const isOne = (node) => node.matches?.(group) && (!node.matches("[role=group], [role=toolbar]") || stops(node) < 2);
  const controls = new Map();
  const explained = new Map();
  const collect = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) collect(node.shadowRoot);
      if (!node.matches(operated) || !node.checkVisibility() || within(node, uncounted)) continue;
      const box = node.getBoundingClientRect();
      const all = chain(node);
      const alone = all.find(isOne) ?? all.find((one) => one.matches?.("label")) ?? node;
      const seen = box.width > 1 ? box : alone.getBoundingClientRect();
      if (seen.width < 2 || seen.height < 2 || !inFirst(seen) || style(alone).visibility !== "visible") continue;
      const named = (node.ariaLabel ?? node.textContent ?? "").trim().slice(0, 30);
      controls.set(alone, named || alone.textContent.trim().slice(0, 30));
    }
  };
  collect(main);
  const shown = "h1, h2, h3, svg, .katex, [role=tab], code, table";
  const unexplaining = `${ofTest("stSidebar")}, ${operated}, label, ${group}, ${shown}`;
  const isBlock = (one) => ["block", "list-item", "flex", "table-cell"].includes(style(one).display);
  for (const { said, element, seen } of texts) {
    if (!inFirst(seen) || within(element, unexplaining)) continue;
    const block = chain(element).find(isBlock) ?? element;
    explained.set(block, `${explained.get(block) ?? ""} ${said}`);
  }
  const wordsOf = (said) => said.split(/\s+/).filter((word) => /\p{L}/u.test(word));
  const sentences = [...explained.values()].filter((one) => wordsOf(one).length >= 5);
  const words = wordsOf(sentences.join(" ")).length;
  const pictures = [];
  const draw = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) draw(node.shadowRoot);
      if (!node.matches("canvas, svg, img, .profile")) continue; // the last: bars of elements, as on a card
      const box = node.getBoundingClientRect();
      const tall = Math.min(box.bottom, innerHeight) - Math.max(box.top, 0);
      if (box.width >= 90 && tall >= 50) pictures.push(node.tagName);
    }
  };
  draw(main);
  const outside = new Set();
  const hold = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) hold(node.shadowRoot);
      if (!node.matches("canvas, iframe, svg:not(svg svg, .katex svg)")) continue;
      const box = node.getBoundingClientRect();
      if (box.width < 2 || box.height < 2 || !node.checkVisibility() || chain(node).some(isHeard)) continue;
      let [wide, tall] = [true, true]; // whether nothing has scrolled it yet
      for (const one of chain(node).slice(1)) {
        const [x, y] = [style(one).overflowX, style(one).overflowY];
        if ((x === "visible" && y === "visible" && !one.matches(ofTest("stElementContainer"))) || isRoot(one)) continue;
        wide &&= !["auto", "scroll"].includes(x);
        tall &&= !["auto", "scroll"].includes(y);
        const around = one.getBoundingClientRect();
        const isWide = wide && (box.left < around.left - 1.5 || box.right > around.right + 1.5);
        const isTall = tall && (box.top < around.top - 1.5 || box.bottom > around.bottom + 1.5);
        const [drawn, held] = [box, around].map(({ width, height }) => `${Math.round(width)} x ${Math.round(height)}`);
        if (isWide || isTall) outside.add(`${frameOf(node)} ${drawn} in ${frameOf(one)} ${held}`);
      }
    }
  };
  hold(main);
  return {
    outside: [...outside], cut: [...cut], overlapping: [...overlapping], small: [...small], words, sentences,
    controls: [...controls.values()], pictures: pictures.length,
    failed: document.querySelectorAll("[data-testid=stException], .katex-error").length,
  };
}
