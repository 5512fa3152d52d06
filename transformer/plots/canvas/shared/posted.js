// Options of the components on the page, which two elements of each share.

/** The event that tells of new options; its detail names the instance. */
export const POSTED = "heedmap-options";

/**
 * The options of every instance on the page.
 * @returns {Map<string, any>}
 */
export function posted() {
  const page = /** @type {{ heedmapOptions?: Map<string, any> }} */ (/** @type {unknown} */ (window));
  return (page.heedmapOptions ??= new Map());
}
