// Posts the part of a map that its window shows to the picture of the same name: it alone changes with a step.

import { decode } from "../shared/blob.js";
import { POSTED, posted } from "../shared/posted.js";

/** @param {{ data: Uint8Array<ArrayBuffer> }} run */
export default function ({ data }) {
  const found = posted();
  const part = decode(data);
  const { instance } = part.header;
  found.set(instance, part);
  window.dispatchEvent(new CustomEvent(POSTED, { detail: instance }));
  return () => {
    if (found.get(instance) === part) found.delete(instance);
  };
}
