// What Streamlit calls with a component's numbers, once a run: it hands them to the component's script, now or once
// that has arrived. It travels with the numbers, so it is short.

import { withScript } from "./arrivals.js";

/** @param {{ name: string, parentElement: ParentNode & Node }} run */
export default function (run) {
  let ended = false;
  let end = () => {};
  withScript(run.name, (draw) => {
    if (!ended) end = draw(run);
  });
  return () => {
    ended = true;
    end();
  };
}
