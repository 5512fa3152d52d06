"""Tiles: a map of any length, from the whole in blocks down to single cells that the browser asks for as it zooms."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from transformer.attention.zoom import View
from transformer.canvas import blob
from transformer.canvas.about import About
from transformer.errors import InputError
from ui.components.shared import bundle
from ui.components.shared.mounting import CanvasComponent

NAMED = 64
"""Cells along a side up to which their names, and their values as they are, are sent."""

LONGEST_NAME = 48
"""Characters of a name that are sent."""

GAMMA = 0.5
"""Codes stand for the square root of weight / largest: what is drawn lies within 1/254 of the largest, small ones
nearer."""

Names = Callable[[slice], Sequence[str]]
"""What some cells of a side are called."""

component = CanvasComponent("tiles")
_post_part = st.components.v2.component("heedmap.part", js=bundle.script("shared/part.js"))


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


def tiles(
    whole: View,
    part: View,
    window: Window,
    *,
    shape: tuple[int, int],
    largest: float,
    queries: Names,
    keys: Names,
    query_axis: str,
    key_axis: str,
    key: str,
    relative: bool = False,
    edges: tuple[Sequence[int], Sequence[int]] = ((), ()),
    file_name: str = "attention",
    about: About | None = None,
    on_window: Callable[[Window], None] | None = None,
) -> None:
    """Draw the map through a window; `part` is what the window shows, `whole` lies below it while the browser moves.

    Wheel, drag, buttons and keys move the window. Once it rests, `on_window` is called with it before the run that this
    starts, which is to bring its part. `queries` and `keys` name some of the cells of `shape`. Colours go from 0 to 1,
    or to `largest`, the map's largest weight, where they are `relative`. Blocks of several cells show their largest
    weight, and say so. A line stands before each row and column of `edges`.

    Raises:
        InputError: weights lie outside 0 to 1, or the window outside of the map.
    """
    if not (0 <= window.top < window.bottom <= shape[0] and 0 <= window.left < window.right <= shape[1]):
        raise InputError("component_tiles_window", window=str(tuple(window)), rows=shape[0], columns=shape[1])
    for name, view in (("whole", whole), ("part", part)):
        blob.refuse_outside_unit(name, view.values, view.visible)

    def settled(value: Any) -> None:
        found = _window(value, shape)
        if found is not None and on_window:
            on_window(found)

    of = repr((key, file_name, *shape, largest))
    with st.container(gap=None):
        component(
            key=key,
            header={
                "of": of,
                "shape": list(shape),
                "largest": largest,
                "edges": [list(side) for side in edges],
                "query_axis": query_axis,
                "key_axis": key_axis,
                "file_name": file_name,
                "about": (about or About()).message(),
                **_places(whole),
            },
            arrays=_codes(whole, largest),
            options={"window": list(window), "relative": relative},
            events={"window": settled if on_window else None},
        )
        said = {"instance": f"{key}.part", "of": of}
        _post_part(key=f"{key}.part", data=part_message(part, largest, queries, keys, said))


def part_message(part: View, largest: float, queries: Names, keys: Names, said: Mapping[str, str]) -> bytes:
    """What the browser is sent for a step: at most 64 kB. `said` tells it of which picture it is."""
    header: dict[str, Any] = {**said, **_places(part), "queries": [], "keys": []}
    arrays = _codes(part, largest)
    if part.is_exact and max(part.values.shape) <= NAMED:
        header["queries"] = [name[:LONGEST_NAME] for name in queries(part.rows)]
        header["keys"] = [name[:LONGEST_NAME] for name in keys(part.keys)]
        arrays["values"] = part.values.astype(np.float32)
    return blob.pack(header, arrays)


def _places(view: View) -> dict[str, Any]:
    return {
        "rows": [view.rows.start, view.rows.stop],
        "columns": [view.keys.start, view.keys.stop],
        "tall": view.tall,
        "wide": view.wide,
    }


def _codes(view: View, largest: float) -> dict[str, np.ndarray]:
    codes = blob.codes(view.values / (largest or 1.0), view.visible, gamma=GAMMA)
    return {"codes": codes, **blob.nan_bits(view.values, view.visible)}


def _window(value: Any, shape: tuple[int, int]) -> Window | None:
    """The browser's event as a window of this map; None for one of a map that is gone."""
    match value:
        case {"rows": [int(top), int(bottom)], "columns": [int(left), int(right)]}:
            inside = 0 <= top < bottom <= shape[0] and 0 <= left < right <= shape[1]
            return Window(top, bottom, left, right) if inside else None
        case _:
            return None
