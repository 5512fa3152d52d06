// Components' scripts travel by elements of their own: numbers change with every click, scripts never.

/** @typedef {(run: any) => () => void} Draw What a component's script does with a run; returns what ends it. */

/**
 * The script of a component, once it has arrived, and what waits for it.
 * @param {string} name
 * @returns {{ draw: Draw | null, waiting: ((draw: Draw) => void)[] }}
 */
export function place(name) {
  const page = /** @type {{ heedmapScripts?: Map<string, any> }} */ (/** @type {unknown} */ (window));
  const places = (page.heedmapScripts ??= new Map());
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
