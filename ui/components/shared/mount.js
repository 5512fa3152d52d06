// What Streamlit calls with a component's numbers, once a run: it hands them to the component's script.

import { withScript } from "./scripts.js";

/** @param {{ name: string, parentElement: ParentNode & Node }} run */
export default function (run) {
  let ended = false;
  let end = () => {};
  withScript(run.name, ({ run: draw, styles }) => {
    const root = run.parentElement.getRootNode();
    if (ended) return;
    if (root instanceof ShadowRoot && !root.adoptedStyleSheets.includes(styles)) root.adoptedStyleSheets.push(styles);
    end = draw(run);
  });
  return () => {
    ended = true;
    end();
  };
}
