// Components' scripts travel by elements of their own: numbers change with every click, scripts never.

import { kept } from "../../../transformer/plots/canvas/shared/page.js";

/** @typedef {(run: any) => () => void} Draw What a component's script does with a run; returns what ends it. */

/**
 * The script of a component, once it has arrived, and what waits for it.
 * @param {string} name
 * @returns {{ draw: Draw | null, waiting: ((draw: Draw) => void)[] }}
 */
export function place(name) {
  const places = kept("heedmapScripts");
  if (!places.has(name)) places.set(name, { draw: null, waiting: [] });
  return places.get(name);
}

/**
 * Act with a component's script, now or once it has arrived.
 * @param {string} name
 * @param {(draw: Draw) => void} act
 */
export function withScript(name, act) {
  const { draw, waiting } = place(name);
  if (draw) act(draw);
  else waiting.push(act);
}

/**
 * The script of `name` is here. The first one stays, since it knows its instances.
 * @param {string} name
 * @param {Draw} run
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
