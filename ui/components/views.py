"""Views of attention whose scripts notebooks show too (`heedmap.plots.canvas`): of the page's record, or of maps.

All but lines and the choice of a head can be drawn of other numbers: a grid of thumbnails, one matrix of any size, a
long map through a window. Weights are on a scale fixed from 0 to 1, so that heads compare; masked cells are hatched,
NaN has a colour of its own, and the legend says so. Pointing at a cell, or reaching it with the arrow keys, says its
number.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st
from jaxtyping import Bool, Float

from heedmap.attention.zoom import View, Zoom
from heedmap.messages import say, words
from heedmap.plots.canvas import blob
from heedmap.plots.canvas.views import About, AxesTexts
from heedmap.plots.picture import Picture
from ui.components.shared.mounting import REPORTED, CanvasComponent, Local

LARGEST_SIDE = 64
"""Cells along a thumbnail's side, at most: 12 x 12 heads then take 0.6 MB, however long the sequence is."""

NAMED = 64
"""Cells along a side of a window up to which their names, and their values as they are, are sent."""

LONGEST_NAME = 48
"""Characters of a name that are sent."""

GAMMA = 0.5
"""Codes of a long map stand for the square root of weight / largest: what is drawn lies within 1/254 of the largest,
small ones nearer."""

heads = CanvasComponent("all_heads")
"""Every layer and head as a thumbnail, to look over and to pick from: by `grids`, one a kind."""

head_choice = CanvasComponent("head_choice")
"""Buttons for kind, layer and head (`pickers`), and what is `known` of the head, by site; `links` always."""

heatmap = CanvasComponent("heatmap")
"""One matrix, queries down, keys across; of a record `sites` and `axes` say what its maps are called.

A switch, which the address keeps, ends the scale at the largest weight here, and the colour bar says so. A `dense` map
shrinks its cells until it fits its room, and does not name each query and key. `save_csv` is what the button says that
saves the numbers; without it there is none."""

bitext = CanvasComponent("bitext", words="lines")
"""Solid lines from each word below to the words above that the chosen head looked at, whatever kind it is of (`sides`).

Pointing at a word shows its lines alone and says them; a click or Enter keeps it, in the address. Where the record says
which source word decides each written one, a dotted line leads to that one if it is not looked at most; `how` says how
that was found."""

columns = CanvasComponent("head_view", words="lines")
"""The same in two columns, with numbers; of the mean, each head has lines of its own colour."""


def ask(chosen: Any) -> None:
    """The run that this event starts takes what stands behind # in the address."""
    st.session_state[REPORTED] = chosen


def all_heads(
    thumbnails: Float[np.ndarray, "layer head query key"],
    visible: Bool[np.ndarray, "query key"] | Bool[np.ndarray, "layer 1 query key"] | None,
    selected: tuple[int, int] | None,
    *,
    key: str,
    first: int = 0,
    off: Mapping[tuple[int, int], str] | None = None,
    file_name: str = "all-heads",
    about: About | None = None,
    on_pick: Callable[[int, int], None] | None = None,
) -> None:
    """A grid of thumbnails of at most 64 x 64 cells, a row a layer and a column a head; a click or Enter picks one.

    The arrow keys walk it. `selected` is outlined. `on_pick` is called with layer and head before the run that a pick
    starts, as a widget's `on_change` is, and so may set other widgets. Heads of `off` (layer, head) are crossed out;
    its words say what stands in for them. `first` is the number of the first row. `about` stands in the picture that is
    saved. `visible=None` hides nothing.

    Raises:
        InputError: thumbnails hold values outside 0 to 1.
    """
    n_layers, n_heads = thumbnails.shape[:2]

    def pick(value: Any) -> None:
        picked = _picked(value, n_layers, n_heads)
        if picked and on_pick:
            on_pick(*picked)

    grid = _grid(thumbnails, [f"L{first + layer}" for layer in range(n_layers)])
    heads(
        key=key,
        header={**grid, **axes_of_heads(), "file_name": file_name, "about": about or About()},
        arrays=thumbnail_codes(thumbnails, visible),
        options={
            "selected": selected and [int(number) for number in selected],
            "off": [[int(layer), int(head), way] for (layer, head), way in sorted((off or {}).items())],
        },
        events={"picked": pick if on_pick else None},
    )


def all_heads_of_kinds(
    local: Local,
    thumbnails: Float[np.ndarray, "row head query key"],
    places: Sequence[tuple[int, int]],
    row_names: Sequence[str],
    axis: str,
    *,
    key: str,
) -> None:
    """The same grid with all kinds of the page's record below each other, in smaller pictures of their own.

    `places` are the number of the kind, and of its layer, that each row shows. A pick is written into the address.
    """
    heads.of_record(
        local, key, thumbnail_codes(thumbnails, None), places=list(places), query_axis=axis, key_axis=axis,
        file_name="all-heads", about=About(),
        **_grid(thumbnails, row_names),
    )  # fmt: skip


def axes_of_heads() -> dict[str, Any]:
    """What the axes of thumbnails are called."""
    return {"query_axis": words("component_queries"), "key_axis": words("component_keys")}


def _grid(thumbnails: np.ndarray, rows: Sequence[str]) -> dict[str, Any]:
    columns = [f"H{head}" for head in range(thumbnails.shape[1])]
    return {"shape": list(thumbnails.shape), "rows": list(rows), "columns": columns}


def thumbnail_codes(
    thumbnails: Float[np.ndarray, "layer head query key"],
    visible: Bool[np.ndarray, "query key"] | Bool[np.ndarray, "layer 1 query key"] | None,
) -> dict[str, np.ndarray]:
    """The arrays that the browser is sent: a byte a cell, `round(254 * weight)`, or 255 where masked.

    Raises:
        InputError: values lie outside 0 to 1.
    """
    shown = np.broadcast_to(True if visible is None else visible, thumbnails.shape)
    blob.refuse_outside_unit("thumbnails", thumbnails, shown)
    return {"codes": blob.codes(thumbnails, shown), **blob.nan_bits(thumbnails, shown)}


def _picked(value: Any, layers: int, heads: int) -> tuple[int, int] | None:
    """The browser's event as a head of this grid; None for one of a grid that is gone."""
    match value:
        case {"layer": int(layer), "head": int(head)} if 0 <= layer < layers and 0 <= head < heads:
            return layer, head
        case _:
            return None


def table_of_numbers(
    values: Float[np.ndarray, "row column"],
    title: str,
    names: tuple[str, str],
    unit: str,
    *,
    labels: tuple[Sequence[str], Sequence[str]] | None = None,
    **drawing: Any,
) -> None:
    """A table drawn as a `matrix`, on a scale that is centred at 0.

    `names` are those of its axes, whose `labels` are numbers from 0 unless some are given.
    """
    said = [[*map(str, range(n))] for n in values.shape] if labels is None else [[*map(say, one)] for one in labels]
    rows, columns = ({"labels": one, "texts": one} for one in said)
    header = {"title": title, "unit": unit, "axis": AxesTexts(*names, ""), "queries": rows, "keys": columns}
    form = {"centred": True, "table": True, "dense": labels is None}
    matrix({**header, **form}, values.astype(np.float32), **drawing)


def matrix(
    header: Mapping[str, Any],
    weights: Float[np.ndarray, "query key"],
    *,
    key: str,
    file_name: str,
    end: float | None = None,
    selected: tuple[int, int] | None = None,
    relative: bool = False,
    on_pick: Callable[[int, int], None] | None = None,
) -> None:
    """One matrix, a cell `selected` in a frame; `end` is where colours end of maps that share a scale.

    `on_pick` is called with the query and key of a cell that is clicked, or reached and entered, before the run that
    this starts.
    """

    def pick(value: Any) -> None:  # a cell that is not of this matrix says nothing
        match value:
            case [int(row), int(column)] if row < weights.shape[0] and column < weights.shape[1] and on_pick:
                on_pick(row, column)

    heatmap(
        key=key,
        header={"dense": False, **header, "file_name": file_name, "save_csv": "", "end": end},
        arrays={"weights": weights},
        options={"pair": None if selected is None else [*map(int, selected)], "relative": relative},
        events={"picked": pick if on_pick else None},
    )


def message_of(
    picture: Picture, notes: str, facts: Sequence[str]
) -> tuple[dict[str, Any], Float[np.ndarray, "query key"]]:
    """What the browser is sent of one picture: what is said of it, and its numbers, -infinity where masked.

    Probabilities have the scale 0 to 1, other numbers one that is centred at 0. `notes` stand below it, `facts` in the
    files that are saved.
    """
    shown = picture.values[picture.visible & np.isfinite(picture.values)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 0.0)
    centred = "" if picture.quantity.is_probability else words("figure_centred", low=low, high=high)
    values = np.where(np.isfinite(picture.values), picture.values, np.nan)
    names = words("figure_query", text=picture.queries.name), words("figure_key", text=picture.keys.name)
    header = {
        "title": say(picture.title),
        "unit": " · ".join(filter(None, [say(picture.unit), centred])),
        "centred": bool(centred),
        "axis": AxesTexts(*names, notes, facts),
        **{
            side: {"labels": list(map(say, axis.labels)), "texts": list(map(say, axis.texts))}
            for side, axis in (("queries", picture.queries), ("keys", picture.keys))
        },
    }
    return header, np.where(picture.visible, values, -np.inf).astype(np.float32)


def heatmap_window(
    zoom: Zoom,
    rows: slice,
    keys: slice,
    *,
    axes: AxesTexts,
    title: str,
    key: str,
    relative: bool,
    file_name: str,
    on_window: Callable[[slice, slice], None],
) -> None:
    """A long map through the window of these `rows` and `keys`; the whole lies below it while the browser moves it.

    Wheel, drag, buttons and keys move the window. Once it rests, `on_window` is called with its rows and keys before
    the run that this starts, which is to bring its part. Colours go from 0 to 1, or to the map's largest weight, where
    they are `relative`. Blocks of several cells show their largest weight, and say so.

    Raises:
        InputError: weights lie outside 0 to 1.
    """
    n_rows, n_keys = zoom.shape
    layers, arrays = list[dict[str, Any]](), dict[str, np.ndarray]()
    for order, (name, view) in enumerate((("whole", zoom.whole()), ("part", zoom.view(rows, keys)))):
        blob.refuse_outside_unit(name, view.values, view.visible)
        layer, sent = _layer_of(zoom, view)
        layers.append(layer)
        arrays |= {f"{name}_{order}": array for name, array in sent.items()}

    def settled(value: Any) -> None:
        match value:
            case {"rows": [int(top), int(bottom)], "columns": [int(left), int(right)]}:
                if 0 <= top < bottom <= n_rows and 0 <= left < right <= n_keys:
                    on_window(slice(top, bottom), slice(left, right))

    heatmap(
        key=key,
        header={
            "long": True, "fixed": True, "shape": [n_rows, n_keys], "largest": zoom.largest, "layers": layers,
            "title": title, "file_name": file_name, "unit": words("heatmap_unit"), "axis": axes, "save_csv": "",
        },
        arrays=arrays,
        options={"window": [rows.start, rows.stop, keys.start, keys.stop], "relative": relative},
        events={"window": settled},
    )  # fmt: skip


def _layer_of(zoom: Zoom, view: View) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the browser is sent of the whole or of a part: a byte a block, at most 64 kB, or few values as they are."""
    spans = {"rows": [view.rows.start, view.rows.stop], "columns": [view.keys.start, view.keys.stop]}
    layer: dict[str, Any] = {**spans, "tall": view.tall, "wide": view.wide}
    if not view.is_exact or max(view.values.shape) > NAMED:
        codes = blob.codes(view.values / (zoom.largest or 1.0), view.visible, gamma=GAMMA)
        return layer, {"codes": codes, **blob.nan_bits(view.values, view.visible)}
    for side, axis, span in (("queries", zoom.attention.queries, view.rows), ("keys", zoom.attention.keys, view.keys)):
        layer[side] = [say(name)[:LONGEST_NAME] for name in axis.labels[span]]
    return layer, {"values": np.where(view.visible, view.values, -np.inf).astype(np.float32)}
