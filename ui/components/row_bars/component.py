"""Row bars: the weights of one row, each a bar that is dragged or moved by keys; together they stay 1."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ui.components.shared.mounting import CanvasComponent

WHOLE = 1000
"""What a row's weights sum to, as the browser counts them: in thousandths."""

component = CanvasComponent("row_bars")


def row_bars(
    weights: Float[np.ndarray, " key"],
    labels: Sequence[str],
    query: str,
    *,
    key: str,
    on_force: Callable[[tuple[float, ...]], None],
) -> None:
    """A bar a key, as long as its weight. What one bar gains by dragging, the others lose in their proportions.

    The arrow keys move a bar by a hundredth, Page Up and Page Down by a tenth, Home and End to 0 and 1. `on_force` is
    called with the new weights, in thousandths that sum to 1, before the run that this starts, as a widget's
    `on_change` is. `query` names the row for a screen reader.
    """

    def force(value: Any) -> None:
        given = _row(value, len(weights))
        if given is not None:
            on_force(given)

    component(
        key=key,
        header={"labels": list(labels), "query": query},
        arrays={"weights": np.asarray(weights, dtype=np.float32)},
        events={"forced": force},
    )


def _row(value: Any, keys: int) -> tuple[float, ...] | None:
    """The browser's event as weights of this row; None for one of a row that is gone."""
    match value:
        case {"thousandths": list(given)} if len(given) == keys and all(type(one) is int and one >= 0 for one in given):
            return tuple(one / WHOLE for one in given) if sum(given) == WHOLE else None
        case _:
            return None
