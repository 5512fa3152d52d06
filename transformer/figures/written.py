"""A figure as Plotly writes it, for whoever draws the same kind of figure many times.

Plotly's classes look at every property that they are given, and copy all of it to write it down: for a heatmap that was
more than a third of what a page takes for a click. A figure that is known to be right needs neither; a test compares it
with what Plotly's classes make of it.
"""

from typing import Any

import numpy as np
from _plotly_utils.utils import to_typed_array_spec  # type: ignore[import-untyped]
from plotly.basedatatypes import BaseFigure


class Written(BaseFigure):  # type: ignore[misc]
    """A figure whose `data` and `layout` stand as Plotly would write them: it can be drawn, and not be changed."""

    def __init__(self, description: dict[str, Any]) -> None:
        # Plotly's own would build its classes; whoever draws a figure asks for `to_dict` alone.
        self.__dict__["description"] = description

    def to_dict(self) -> dict[str, Any]:
        """What goes to the browser: numbers as bytes in base 64."""
        description: dict[str, Any] = self.__dict__["description"]
        traces = [{name: _sent(value) for name, value in trace.items()} for trace in description["data"]]
        return {"data": traces, "layout": description["layout"]}


def _sent(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return value.tolist() if value.dtype == object else to_typed_array_spec(value)
