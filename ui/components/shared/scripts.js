// A component's script and styles arrive at the page.

import { place } from "./arrivals.js";

/**
 * The script of `name` is here. The first one stays, since it knows its instances.
 * @param {string} name
 * @param {import("./arrivals.js").Draw} run
 * @param {string} css
 */
export function arrived(name, run, css) {
  const found = place(name);
  if (found.draw) return;
  const styles = new CSSStyleSheet();
  styles.replaceSync(css);
  found.draw = (/** @type {{ parentElement: Node }} */ asked) => {
    const root = asked.parentElement.getRootNode();
    if (root instanceof ShadowRoot && !root.adoptedStyleSheets.includes(styles)) root.adoptedStyleSheets.push(styles);
    return run(asked);
  };
  for (const act of found.waiting.splice(0)) act(found.draw);
}
