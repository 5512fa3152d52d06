// Posts a picture's options (what is selected, which heads are on, the threshold) to the picture of the same name.
// They travel apart from the weights, so that moving a slider sends a few bytes and not every weight again.

import { kept, POSTED } from "../../../transformer/plots/canvas/shared/page.js";

/** @param {{ data: { instance: string } }} run */
export default function ({ data }) {
  const found = kept("heedmapOptions");
  found.set(data.instance, data);
  window.dispatchEvent(new CustomEvent(POSTED, { detail: data.instance }));
  return () => {
    if (found.get(data.instance) === data) found.delete(data.instance);
  };
}
