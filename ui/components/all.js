// All components, with their styles, for the page that loads them once.

import canvas from "./built/canvas.css";
import styles from "./built/components.css";
import allHeads from "../../transformer/plots/canvas/all_heads/all_heads.js";
import headChoice from "../../transformer/plots/canvas/head_choice/head_choice.js";
import heatmap from "../../transformer/plots/canvas/heatmap/heatmap.js";
import { bitext, headView } from "../../transformer/plots/canvas/lines/lines.js";
import alignments from "./alignments/alignments.js";
import map from "./map/map.js";
import matrices from "./matrices/matrices.js";
import rowBars from "./row_bars/row_bars.js";
import tracks from "./tracks/tracks.js";
import { arrived } from "./shared/arrivals.js";

const DRAWN = {
  alignments,
  all_heads: allHeads,
  bitext,
  head_choice: headChoice,
  head_view: headView,
  heatmap,
  map,
  matrices,
  row_bars: rowBars,
  tracks,
};

for (const [name, draw] of Object.entries(DRAWN)) arrived(`heedmap.${name}`, draw, `${canvas}\n${styles}`);

/** What Streamlit calls where the scripts came by a message: they have arrived already. */
export default function () {
  return () => {};
}
