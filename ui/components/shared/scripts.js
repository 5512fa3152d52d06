// Components' scripts and styles, which travel by elements of their own: numbers change with every click, scripts never.

/**
 * What a component's script brings: how to draw a run, and styles.
 * @typedef {{ run: (run: any) => () => void, styles: CSSStyleSheet }} Script
 */

/**
 * The scripts that have arrived, by the names of their components, and what waits for one.
 * @returns {Map<string, { script: Script | null, waiting: ((script: Script) => void)[] }>}
 */
function scripts() {
  const page = /** @type {{ heedmapScripts?: ReturnType<typeof scripts> }} */ (/** @type {unknown} */ (window));
  return (page.heedmapScripts ??= new Map());
}

/** @param {string} name */
function place(name) {
  const found = scripts().get(name) ?? { script: null, waiting: [] };
  scripts().set(name, found);
  return found;
}

/**
 * A script is here. The first one stays, since it knows its instances.
 * @param {string} name
 * @param {Script["run"]} run
 * @param {string} css
 */
export function arrived(name, run, css) {
  const found = place(name);
  if (found.script) return;
  const styles = new CSSStyleSheet();
  styles.replaceSync(css);
  const script = (found.script = { run, styles });
  for (const act of found.waiting.splice(0)) act(script);
}

/**
 * Act with a component's script, now or once it has arrived.
 * @param {string} name
 * @param {(script: Script) => void} act
 */
export function withScript(name, act) {
  const { script, waiting } = place(name);
  if (script) act(script);
  else waiting.push(act);
}
