"""Heatmap: one head of the page's record, large; queries down, keys across, one colour a weight."""

from collections.abc import Mapping

from transformer.canvas.views import Axes, Site, heatmap_header
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

component = CanvasComponent("heatmap")


def heatmap(
    local: Local,
    sites: Mapping[str, Site],
    axes: Mapping[str, Axes],
    *,
    key: str,
    dense: bool = False,
    save_csv: str = "",
) -> None:
    """The chosen head of the page's record on a canvas, and the chosen pair in every head below it.

    The scale is fixed from 0 to 1, so that heads compare; a switch, which the address keeps, ends it at the largest
    weight here, and the colour bar says so. Masked cells are hatched, NaN has a colour of its own. Pointing at a cell
    (or reaching it with the arrow keys) says its number; a click or Enter marks it in every view. `sites` are told by
    site, `axes` by kind. A `dense` map shrinks its cells until it fits its room, and does not name each query and key.
    `save_csv` is what the button says that saves the numbers; without it there is none.
    """
    component(
        key=key,
        header={**local.message(), **heatmap_header(sites, axes, dense, save_csv)},
        arrays={},
        options={},
        events={},
    )
