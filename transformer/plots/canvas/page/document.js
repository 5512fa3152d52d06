// What a page without a server runs: its views of the record that stands in it.

import allHeads from "../all_heads/all_heads.js";
import headChoice from "../head_choice/head_choice.js";
import heatmap from "../heatmap/heatmap.js";
import { headView } from "../lines/lines.js";
import { showRecord } from "./page.js";

showRecord({ all_heads: allHeads, head_choice: headChoice, heatmap, head_view: headView });
