"""Heatmap: one matrix of any size; queries down, keys across, one colour a number.

It is the chosen head of the page's record, which the browser has, or one picture, or a long map through a window.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from transformer.attention.zoom import View
from transformer.errors import InputError
from transformer.messages import say, words
from transformer.plots.canvas import blob
from transformer.plots.canvas.about import About
from transformer.plots.canvas.views import Axes, Site, heatmap_header
from transformer.plots.picture import Picture
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

NAMED = 64
"""Cells along a side of a window up to which their names, and their values as they are, are sent."""

LONGEST_NAME = 48
"""Characters of a name that are sent."""

GAMMA = 0.5
"""Codes of a long map stand for the square root of weight / largest: what is drawn lies within 1/254 of the largest,
small ones nearer."""

Names = Callable[[slice], Sequence[str]]
"""What some cells of a side are called."""

component = CanvasComponent("heatmap")


class Window(NamedTuple):
    """A rectangle of cells: rows and columns from the first to after the last, from 0."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> slice:
        """The queries."""
        return slice(self.top, self.bottom)

    @property
    def keys(self) -> slice:
        """The keys."""
        return slice(self.left, self.right)


class Scores(NamedTuple):
    """The scores of one head: what stands below them and in saved files, and the name of these."""

    picture: Picture
    head: int
    notes: str
    facts: Sequence[str]
    file_name: str


def heatmap(
    local: Local,
    sites: Mapping[str, Site],
    axes: Mapping[str, Axes],
    *,
    key: str,
    dense: bool = False,
    save_csv: str = "",
    scores: Scores | None = None,
) -> None:
    """The chosen head of the page's record on a canvas.

    The scale is fixed from 0 to 1, so that heads compare; a switch, which the address keeps, ends it at the largest
    weight here, and the colour bar says so. Masked cells are hatched, NaN has a colour of its own. Pointing at a cell
    (or reaching it with the arrow keys) says its number; a click or Enter marks it in every view. `sites` are told by
    site, `axes` by kind. A `dense` map shrinks its cells until it fits its room, and does not name each query and key.
    `save_csv` is what the button says that saves the numbers; without it there is none. Where there are `scores`, they
    are shown instead of their head's weights, on a scale that is centred at 0, and nothing is sent of `sites`.
    """
    if scores is None:
        header, arrays = heatmap_header(sites, axes, dense, save_csv), dict[str, np.ndarray]()
    else:  # with every choice of a head another message, which says nothing of the other heads
        shown, arrays = _of_picture(scores.picture, scores.notes, About("", scores.facts).message()["lines"])
        named = {"site": str(scores.picture.site), "head": scores.head, "file_name": scores.file_name}
        header = {"scores": shown | named, "dense": dense, "save_csv": save_csv}
    component(key=key, header={**local.message(), **header}, arrays=arrays, options={}, events={})


def heatmap_of(
    picture: Picture,
    *,
    key: str,
    file_name: str,
    notes: str = "",
    facts: Sequence[str] = (),
    selected: tuple[int, int] | None = None,
    relative: bool = False,
    end: float | None = None,
    on_pick: Callable[[int, int], None] | None = None,
) -> None:
    """One picture, drawn alike. Probabilities have the scale 0 to 1, other numbers one that is centred at 0.

    `end` is where the colours end of maps that share a scale; without it, that is at the picture's largest number.
    `notes` stand below it, `facts` in the files that are saved. `on_pick` is called with the query and key of a cell
    that is clicked, or reached and entered, before the run that this starts. `selected` is framed.
    """
    header, arrays = _of_picture(picture, notes, About("", facts).message()["lines"])
    component(
        key=key,
        header={**header, "file_name": file_name, "dense": False, "save_csv": "", "end": end},
        arrays=arrays,
        options={"pair": None if selected is None else [int(place) for place in selected], "relative": relative},
        events={"picked": _picking(picture.values.shape, on_pick)},
    )


def table_of_numbers(
    values: Float[np.ndarray, "row column"],
    title: str,
    names: tuple[str, str],
    unit: str,
    *,
    key: str,
    file_name: str,
    labels: tuple[Sequence[str], Sequence[str]] | None = None,
    end: float | None = None,
    on_pick: Callable[[int, int], None] | None = None,
) -> None:
    """A table drawn alike, on a scale that is centred at 0 and ends at `end`, or at the largest number.

    `names` are those of its axes, whose `labels` are numbers from 0 unless some are given. `on_pick` is called with the
    row and column of a cell that is clicked, or reached and entered, before the run that this starts.
    """
    counted = labels is None
    said = [[*map(str, range(n))] for n in values.shape] if labels is None else [[*map(say, one)] for one in labels]
    rows, columns = ({"labels": one, "texts": one} for one in said)
    axis = {"queries": names[0], "keys": names[1], "notes": "", "facts": [], "edges": [[], []]}
    header = {"title": title, "unit": unit, "centred": True, "axis": axis, "queries": rows, "keys": columns}
    component(
        key=key,
        header={**header, "table": True, "file_name": file_name, "dense": counted, "save_csv": "", "end": end},
        arrays={"weights": values.astype(np.float32)},
        options={"pair": None, "relative": False},
        events={"picked": _picking(values.shape, on_pick)},
    )


def _picking(shape: tuple[int, ...], on_pick: Callable[[int, int], None] | None) -> Callable[[Any], None] | None:
    """What hears of a cell that was picked; one that is not of this matrix says nothing."""

    def pick(value: Any) -> None:
        match value:
            case [int(row), int(column)] if row < shape[0] and column < shape[1] and on_pick:
                on_pick(row, column)

    return pick if on_pick else None


def _of_picture(picture: Picture, notes: str, facts: Sequence[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the browser is sent of one picture."""
    shown = picture.values[picture.visible & np.isfinite(picture.values)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 0.0)
    centred = "" if picture.quantity.is_probability else words("figure_centred", low=low, high=high)
    values = np.where(np.isfinite(picture.values), picture.values, np.nan)
    header = {
        "title": say(picture.title),
        "unit": " · ".join(filter(None, [say(picture.unit), centred])),
        "centred": bool(centred),
        "axis": {
            "queries": words("figure_query", text=picture.queries.name),
            "keys": words("figure_key", text=picture.keys.name),
            "notes": notes,
            "facts": list(facts),
            "edges": [[], []],
        },
        **{
            side: {"labels": list(map(say, axis.labels)), "texts": list(map(say, axis.texts))}
            for side, axis in (("queries", picture.queries), ("keys", picture.keys))
        },
    }
    return header, {"weights": np.where(picture.visible, values, -np.inf).astype(np.float32)}


def heatmap_window(
    whole: View,
    part: View,
    window: Window,
    *,
    shape: tuple[int, int],
    largest: float,
    queries: Names,
    keys: Names,
    axes: Axes,
    title: str,
    key: str,
    relative: bool = False,
    file_name: str = "attention",
    on_window: Callable[[Window], None] | None = None,
) -> None:
    """A long map through a window; `part` is what the window shows, `whole` lies below it while the browser moves.

    Wheel, drag, buttons and keys move the window. Once it rests, `on_window` is called with it before the run that this
    starts, which is to bring its part. `queries` and `keys` name some of the cells of `shape`. Colours go from 0 to 1,
    or to `largest`, the map's largest weight, where they are `relative`. Blocks of several cells show their largest
    weight, and say so.

    Raises:
        InputError: weights lie outside 0 to 1, or the window outside of the map.
    """
    if not (0 <= window.top < window.bottom <= shape[0] and 0 <= window.left < window.right <= shape[1]):
        raise InputError("component_tiles_window", window=str(tuple(window)), rows=shape[0], columns=shape[1])
    for name, view in (("whole", whole), ("part", part)):
        blob.refuse_outside_unit(name, view.values, view.visible)

    def settled(value: Any) -> None:
        match value:
            case {"rows": [int(top), int(bottom)], "columns": [int(left), int(right)]}:
                if 0 <= top < bottom <= shape[0] and 0 <= left < right <= shape[1] and on_window:
                    on_window(Window(top, bottom, left, right))

    layers, arrays = layers_of([whole, part], largest, queries, keys)
    component(
        key=key,
        header={
            "long": True,
            "shape": list(shape),
            "largest": largest,
            "layers": layers,
            "title": title,
            "file_name": file_name,
            "unit": words("heatmap_unit"),
            "axis": axes.message(),
            "fixed": True,
            "save_csv": "",
        },
        arrays=arrays,
        options={"window": list(window), "relative": relative},
        events={"window": settled if on_window else None},
    )


def layers_of(
    views: Sequence[View], largest: float, queries: Names, keys: Names
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """What the browser is sent of the whole and of a part: a byte a block, at most 64 kB each."""
    layers, arrays = list[dict[str, Any]](), dict[str, np.ndarray]()
    for order, view in enumerate(views):
        layer = {"rows": _span(view.rows), "columns": _span(view.keys), "tall": view.tall, "wide": view.wide}
        codes = blob.codes(view.values / (largest or 1.0), view.visible, gamma=GAMMA)
        sent = {"codes": codes, **blob.nan_bits(view.values, view.visible)}
        if view.is_exact and max(view.values.shape) <= NAMED:
            layer["queries"] = [name[:LONGEST_NAME] for name in queries(view.rows)]
            layer["keys"] = [name[:LONGEST_NAME] for name in keys(view.keys)]
            sent = {"values": np.where(view.visible, view.values, -np.inf).astype(np.float32)}
        layers.append(layer)
        arrays |= {f"{name}_{order}": array for name, array in sent.items()}
    return layers, arrays


def _span(positions: slice) -> list[int]:
    return [positions.start, positions.stop]
