"""All heads: every layer's and head's attention as a thumbnail, to look over and to pick from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from transformer.errors import InputError
from transformer.messages import words
from transformer.plots.canvas import blob
from transformer.plots.canvas.about import About
from transformer.plots.canvas.views import Grid, all_heads_header
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

LARGEST_SIDE = 64
"""Cells along a thumbnail's side, at most: 12 x 12 heads then take 0.6 MB, however long the sequence is."""

component = CanvasComponent("all_heads")


@dataclass(frozen=True)
class Picked:
    """This head was picked."""

    layer: int
    head: int


def all_heads(
    thumbnails: Float[np.ndarray, "layer head query key"],
    visible: Bool[np.ndarray, "query key"] | Bool[np.ndarray, "layer 1 query key"] | None,
    row_names: Sequence[str],
    column_names: Sequence[str],
    selected: tuple[int, int] | None,
    *,
    key: str,
    off: Mapping[tuple[int, int], str] | None = None,
    query_axis: str | None = None,
    key_axis: str | None = None,
    file_name: str = "all-heads",
    about: About | None = None,
    on_pick: Callable[[Picked], None] | None = None,
) -> None:
    """A grid of thumbnails, a row a layer and a column a head; a click or Enter on one picks it.

    Pointing at a thumbnail (or reaching it with the arrow keys) enlarges it. `selected` is outlined. `on_pick` is
    called before the run that a pick starts, as a widget's `on_change` is, and so may set other widgets. Heads of `off`
    (layer, head) are crossed out; its words say what stands in for them. The axes are called queries and keys, unless
    they are given other names. `about` stands in the picture that is saved.

    Colour stands for the weight, on a scale fixed from 0 to 1, as in the large heatmap. Cells that `visible` marks
    False are hatched grey, NaN has a colour of its own, and the legend says so. `visible=None` hides nothing.

    Raises:
        InputError: thumbnails have more than 64 queries or keys, hold values outside 0 to 1, or names, mask or
            selection do not fit them.
    """
    layers, heads = thumbnails.shape[:2]
    if (len(row_names), len(column_names)) != (layers, heads):
        counts = {"rows": len(row_names), "columns": len(column_names)}
        raise InputError("component_grid_names", layers=layers, heads=heads, **counts)
    if selected is not None and not (0 <= selected[0] < layers and 0 <= selected[1] < heads):
        raise InputError("component_grid_selected", selected=str(selected), layers=layers, heads=heads)

    def pick(value: Any) -> None:
        picked = _picked(value, layers, heads)
        if picked and on_pick:
            on_pick(picked)

    component(
        key=key,
        header={
            "shape": list(thumbnails.shape),
            "rows": list(row_names),
            "columns": list(column_names),
            "query_axis": words("component_queries") if query_axis is None else query_axis,
            "key_axis": words("component_keys") if key_axis is None else key_axis,
            "file_name": file_name,
            "about": (about or About()).message(),
        },
        arrays=thumbnail_codes(thumbnails, visible),
        options={
            "selected": selected and [int(number) for number in selected],
            "off": [[int(layer), int(head), way] for (layer, head), way in sorted((off or {}).items())],
        },
        events={"picked": pick if on_pick else None},
    )


def all_heads_of_record(local: Local, grids: Mapping[str, Grid], arrays: Mapping[str, np.ndarray], *, key: str) -> None:
    """The same grid of the page's record, which the browser has: a pick is written into the address, without a run.

    `grids` are told by kind. Where the browser has a part of the record, `arrays` are the thumbnails of one kind.
    """
    header = {**local.message(), **all_heads_header(grids)}
    component(key=key, header=header, arrays=arrays, options={}, events={})


def all_heads_of_kinds(
    local: Local,
    thumbnails: Float[np.ndarray, "row head query key"],
    places: Sequence[tuple[int, int]],
    row_names: Sequence[str],
    *,
    key: str,
    query_axis: str,
    key_axis: str,
) -> None:
    """The same grid with all kinds of the page's record below each other, in smaller pictures of their own.

    `places` are the number of the kind, and of its layer, that each row shows. A pick is written into the address.

    Raises:
        InputError: thumbnails have more than 64 queries or keys, or hold values outside 0 to 1.
    """
    heads = thumbnails.shape[1]
    component(
        key=key,
        header={
            **local.message(),
            "places": [list(place) for place in places],
            "shape": list(thumbnails.shape),
            "rows": list(row_names),
            "columns": [f"H{head}" for head in range(heads)],
            "query_axis": query_axis,
            "key_axis": key_axis,
            "file_name": "all-heads",
            "about": About().message(),
        },
        arrays=thumbnail_codes(thumbnails, None),
        options={},
        events={},
    )


def thumbnail_codes(
    thumbnails: Float[np.ndarray, "layer head query key"],
    visible: Bool[np.ndarray, "query key"] | Bool[np.ndarray, "layer 1 query key"] | None,
) -> dict[str, np.ndarray]:
    """The arrays that the browser is sent: a byte a cell, `round(254 * weight)`, or 255 where masked.

    Raises:
        InputError: the arrays are not what `all_heads` takes.
    """
    queries, keys = thumbnails.shape[2:]
    if max(queries, keys) > LARGEST_SIDE:
        raise InputError("component_grid_large", queries=queries, keys=keys, most=LARGEST_SIDE)
    shown = blob.mask_like(thumbnails, visible)
    blob.refuse_outside_unit("thumbnails", thumbnails, shown)
    return {"codes": blob.codes(thumbnails, shown), **blob.nan_bits(thumbnails, shown)}


def _picked(value: Any, layers: int, heads: int) -> Picked | None:
    """The browser's event as a head of this grid; None for one of a grid that is gone."""
    match value:
        case {"layer": int(layer), "head": int(head)} if 0 <= layer < layers and 0 <= head < heads:
            return Picked(layer, head)
        case _:
            return None
