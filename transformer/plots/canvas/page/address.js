// The address of a page that has no server. A saved page keeps what is looked at behind # in its own address, so that a
// link shows the same picture and Back undoes; a notebook's cell has no address, and keeps it to itself.

import { ADDRESS } from "../shared/local.js";

/** @typedef {import("../shared/local.js").Values} Values */

/**
 * Bring the address to the page, for all that draw from it.
 * @returns {import("../shared/local.js").AddressBar}
 */
export function bringAddress() {
  const isOwn = window === window.top && /^(file|https?):$/.test(location.protocol);
  /** @type {Values} */
  let kept = {};
  const tell = () => window.dispatchEvent(new Event(ADDRESS));
  const hash = (/** @type {Values} */ values) => `#${new URLSearchParams(values)}`;
  const values = () => (isOwn ? Object.fromEntries(new URLSearchParams(location.hash.slice(1))) : kept);
  const bar = {
    arrive: () => {},
    arrival: () => 0,
    values,
    write: (/** @type {Values} */ said) => {
      kept = said;
      if (isOwn) location.hash = hash(said); // which tells, too
      else tell();
    },
    settle: (/** @type {Values} */ said) => {
      if (isOwn && hash(said) !== hash(values())) history.replaceState(null, "", hash(said));
    },
  };
  if (isOwn) addEventListener("hashchange", tell);
  /** @type {{ heedmapAddress?: typeof bar }} */ (/** @type {unknown} */ (window)).heedmapAddress = bar;
  return bar;
}
