"""Cells: a layer over a heatmap of Plotly's, through which the keyboard reaches its cells."""

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer.figures.heatmap import CLICKABLE_CELLS
from transformer.messages import say
from transformer.pictures.picture import Picture
from ui.components.shared.mounting import CanvasComponent

component = CanvasComponent("cells")


def cells(
    picture: Picture,
    plot: str,
    *,
    key: str,
    selected: tuple[int, int] | None = None,
    on_pick: Callable[[int, int], None] | None = None,
) -> None:
    """Let the keyboard walk the cells of the heatmap of `picture` that stands before this under the key `plot`.

    The picture becomes one stop of the Tab key. Arrow keys, Home and End move a ring from cell to cell, whose words and
    number are written below the picture and told to screen readers. Enter picks: `on_pick` is called with query and key
    before the run that this starts, as a widget's `on_change` is. `selected` is the cell where the ring starts.

    Like the clicks of the heatmap itself, there is none above `CLICKABLE_CELLS` cells, or without cells.
    """
    if not 0 < picture.values.size <= CLICKABLE_CELLS:
        return
    n_queries, n_keys = picture.values.shape

    def pick(value: Any) -> None:
        cell = _cell(value, n_queries, n_keys)
        if cell is not None and on_pick:
            on_pick(*cell)

    component(
        key=key,
        header={
            "plot": plot,
            "title": say(picture.title),
            "queries": list(picture.queries.labels),
            "keys": list(picture.keys.labels),
        },
        arrays={
            "values": np.asarray(picture.values, dtype=np.float32),
            "visible": np.asarray(picture.visible, dtype=np.uint8),
        },
        options={"selected": None if selected is None else [int(place) for place in selected]},
        events={"picked": pick if on_pick else None},
    )


def _cell(value: Any, n_queries: int, n_keys: int) -> tuple[int, int] | None:
    """The browser's event as a cell of this picture; None for one of a picture that is gone."""
    match value:
        case {"query": int(query), "key": int(key)} if 0 <= query < n_queries and 0 <= key < n_keys:
            return query, key
        case _:
            return None
