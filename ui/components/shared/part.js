// Posts a part of a picture, such as what a window shows of a map, to the picture of the same name: it alone changes.

import { decode } from "../../../transformer/canvas/shared/blob.js";
import { POSTED, posted } from "../../../transformer/canvas/shared/posted.js";

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
