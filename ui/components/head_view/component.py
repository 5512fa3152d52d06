"""Head view: two columns of tokens joined by lines, for any of one layer's heads of the page's record."""

from collections.abc import Mapping, Sequence

from transformer.plots.canvas.views import Sides, head_view_header
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

component = CanvasComponent("head_view")


def head_view(local: Local, sides: Mapping[str, Sides], heads: Sequence[str], *, key: str) -> None:
    """Queries on the left, keys on the right, a line for each weight, of the layer that is chosen.

    A slider chooses the weight below which there is no line; at most the 2,000 strongest lines are drawn, and the view
    says so. Pointing at a token isolates its lines; a click keeps it so, and a click on a token across then selects the
    pair. All of it stays in the browser. `sides` are told by kind; `heads` are the heads' names, that of the mean last.
    """
    header = {**local.message(), **head_view_header(sides, heads)}
    component(key=key, header=header, arrays={}, options={}, events={})
