// The life of a component: one instance a place on the page, which outlives many runs of the page.

import { decode } from "./blob.js";
import { locally } from "./local.js";
import { element, onOptions } from "./page.js";

/**
 * What a component finds when it is mounted.
 * @typedef {object} Frame
 * @property {HTMLElement} root where to build
 * @property {(name: string, value: unknown) => void} send tell Python an event; nothing happens if nobody there listens
 * @property {(name: string) => boolean} hears whether anybody in Python listens to this event
 * @property {() => void} draw draw before the next frame, however often this is called until then
 */

/**
 * What a component does. All but `receive` and `draw` may be left out.
 * @typedef {object} Hooks
 * @property {(received: import("./blob.js").Received) => void} receive take new numbers and texts; a drawing follows
 * @property {() => void} draw draw what was received, at the root's width
 * @property {(options: any) => void} [adopt] take Python's options, after the first `receive`; a drawing follows
 * @property {() => void} [close] the component leaves the page
 */

/** @typedef {Uint8Array<ArrayBuffer> | import("./blob.js").Received} Message Bytes, or what was in them. */

/**
 * A component as Streamlit calls it, once a run: `mount` builds it, the hooks that it returns do the rest.
 *
 * Streamlit ends a late run after newer ones have begun, so only the newest run's end ends the instance.
 *
 * With `local`, it may be sent words alone, and takes its numbers from the page's record, by what the address says.
 * @param {string} className
 * @param {(frame: Frame) => Hooks} mount
 * @param {import("./local.js").Local | null} local
 */
export function component(className, mount, local = null) {
  /** @type {WeakMap<Node, ReturnType<typeof open>>} */
  const instances = new WeakMap();
  /** @param {{ data: Message, parentElement: ParentNode & Node, setTriggerValue: Frame["send"] }} run */
  return ({ data, parentElement, setTriggerValue }) => {
    const instance = instances.get(parentElement) ?? open(className, mount, parentElement, local);
    instances.set(parentElement, instance);
    const end = instance.run(data, setTriggerValue);
    return () => {
      if (end()) instances.delete(parentElement);
    };
  };
}

/**
 * One instance: `run` takes a run's message, and returns what ends the run, which says whether the instance ended too.
 * @param {string} className
 * @param {(frame: Frame) => Hooks} mount
 * @param {Node} parent
 * @param {import("./local.js").Local | null} local
 */
function open(className, mount, parent, local) {
  const root = element("div", `heedmap ${className}`);
  let [runs, instance, width] = [0, "", 0];
  /** @type {string[]} */
  let events = [];
  /** @type {Frame["send"]} */
  let trigger = () => {};
  let forget = () => {};
  let hasNumbers = false; // those of a record may come later than what draws from it
  let due = 0;
  const draw = () => {
    due ||= requestAnimationFrame(drawNow);
  };
  const drawNow = () => {
    due = 0;
    if (!root.clientWidth || !hasNumbers) return;
    const start = performance.now();
    hooks.draw();
    const draws = String(Number(root.dataset.draws ?? 0) + 1);
    const drawMilliseconds = (performance.now() - start).toFixed(1);
    Object.assign(root.dataset, { draws, drawMilliseconds }); // for whoever measures
    const around = root.getRootNode();
    if (around instanceof ShadowRoot) {
      around.host.closest("[class*=-canvas]")?.setAttribute("data-drawn", ""); // what is below has its place
    }
  };
  const tell = (/** @type {string} */ name, /** @type {unknown} */ value) =>
    events.includes(name) && trigger(name, value);
  const here = local && locally(local, take, tell);
  const hears = (/** @type {string} */ name) => Boolean(here?.isOpen()) || events.includes(name);
  const send = (/** @type {string} */ name, /** @type {unknown} */ value) =>
    (here?.isOpen() ? here.act(name, value) : tell(name, value));
  const hooks = mount({ root, draw, hears, send });
  const resized = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    draw();
  });
  parent.appendChild(root);

  /** @param {import("./local.js").Seen} seen */
  function take({ header, arrays, options }) {
    hasNumbers = true;
    hooks.receive({ header, arrays });
    hooks.adopt?.(options);
    draw();
  }
  /** @param {any} options */
  const adopt = (options) => {
    events = options.events;
    if (here?.isOpen()) return here.allow(options);
    hooks.adopt?.(options);
    draw();
  };
  return {
    /**
     * @param {Message} data
     * @param {Frame["send"]} setTriggerValue
     */
    run(data, setTriggerValue) {
      const number = ++runs;
      trigger = setTriggerValue;
      const received = data instanceof Uint8Array ? decode(data) : data;
      if (here?.receive(received) !== true) {
        hasNumbers = true;
        hooks.receive(received);
      }
      resized.observe(root);
      if (instance !== received.header.instance) {
        forget();
        instance = received.header.instance;
        forget = onOptions(instance, adopt);
      }
      draw();
      return () => {
        if (runs !== number) return false;
        forget();
        here?.close();
        hooks.close?.();
        resized.disconnect();
        root.remove();
        return true;
      };
    },
  };
}
