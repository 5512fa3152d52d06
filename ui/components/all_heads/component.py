"""All heads: every layer's and head's attention as a thumbnail, to look over and to pick from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from transformer.errors import InputError
from ui.components.shared import blob
from ui.components.shared.mounting import CanvasComponent

LARGEST_SIDE = 64
"""Cells along a thumbnail's side, at most: 12 x 12 heads then take 0.6 MB, however long the sequence is."""

_component = CanvasComponent("all_heads", "all_heads.js")


@dataclass(frozen=True)
class Picked:
    """The reader picked this head."""

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
    caption: str = "",
    notes: Sequence[Sequence[str]] | None = None,
    query_axis: str = "queries",
    key_axis: str = "keys",
    gamma: float = 0.5,
    file_name: str = "all-heads",
    on_pick: Callable[[Picked], None] | None = None,
) -> Picked | None:
    """A grid of thumbnails, a row a layer and a column a head; returns the head picked in this run, if any.

    Pointing at a thumbnail (or reaching it with the arrow keys) enlarges it with its `notes[layer][head]`; a click or
    Enter picks it. `selected` is outlined. `on_pick` is called before the run that a pick starts, as a widget's
    `on_change` is, and so may set other widgets.

    Colour stands for `weight ** gamma` (0.5, the square root, lets small weights be seen; 1 is linear) on a scale
    fixed from 0 to 1. Cells that `visible` marks False are hatched grey, NaN has a colour of its own, and the legend
    says so. `visible=None` hides nothing.

    Raises:
        InputError: thumbnails have more than 64 queries or keys, hold values outside 0 to 1, or names, notes, mask or
            selection do not fit them.
    """
    layers, heads = thumbnails.shape[:2]
    if (len(row_names), len(column_names)) != (layers, heads):
        raise InputError(
            f"{len(row_names)} row_names and {len(column_names)} column_names for {layers} layers of {heads} heads: "
            "give one a layer and one a head"
        )
    if notes is not None and [len(row) for row in notes] != [heads] * layers:
        raise InputError(f"notes do not have {layers} rows of {heads}: give one a head of each layer, or None")
    if selected is not None and not (0 <= selected[0] < layers and 0 <= selected[1] < heads):
        raise InputError(f"selected={selected} is not among {layers} layers of {heads} heads: choose one that is")

    def pick(value: Any) -> None:
        picked = _picked(value, layers, heads)
        if picked and on_pick:
            on_pick(picked)

    message = grid_message(
        thumbnails,
        visible,
        gamma,
        instance=key,
        rows=list(row_names),
        columns=list(column_names),
        notes=notes and [list(row) for row in notes],
        caption=caption,
        query_axis=query_axis,
        key_axis=key_axis,
        file_name=file_name,
    )
    options = {"selected": selected and [int(number) for number in selected]}
    happened = _component(key=key, blob=message, options=options, events={"picked": pick})
    return _picked(happened["picked"], layers, heads)


def grid_message(
    thumbnails: Float[np.ndarray, "layer head query key"],
    visible: Bool[np.ndarray, "query key"] | Bool[np.ndarray, "layer 1 query key"] | None,
    gamma: float,
    **texts: Any,
) -> bytes:
    """What `all_heads` sends to the browser: a byte a cell, `round(254 * weight ** gamma)`, or 255 where masked.

    Raises:
        InputError: the arrays, or `gamma`, are not what `all_heads` takes.
    """
    queries, keys = thumbnails.shape[2:]
    if max(queries, keys) > LARGEST_SIDE:
        raise InputError(
            f"thumbnails of {queries} x {keys} cells are too large: reduce them to at most "
            f"{LARGEST_SIDE} x {LARGEST_SIDE} first, with an overview of each head"
        )
    if gamma <= 0:
        raise InputError(f"gamma={gamma} gives no colour scale: choose 1 (linear) or 0.5 (square root)")
    shown = blob.mask_like(thumbnails, visible)
    blob.refuse_outside_unit("thumbnails", thumbnails, shown)
    arrays = {"codes": blob.codes(thumbnails, shown, gamma), **blob.nan_bits(thumbnails, shown)}
    return blob.pack({"shape": list(thumbnails.shape), "gamma": gamma, **texts}, arrays)


def _picked(value: Any, layers: int, heads: int) -> Picked | None:
    """The browser's event as a head of this grid; None for none, or for one of a grid that is gone."""
    match value:
        case {"layer": int(layer), "head": int(head)} if 0 <= layer < layers and 0 <= head < heads:
            return Picked(layer, head)
        case _:
            return None
