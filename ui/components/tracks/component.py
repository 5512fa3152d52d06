"""Tracks: rows of values over one axis of letters, read in words; calls are clicked, letters dragged over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from heedmap.plots.canvas.views import About
from ui.components.shared.mounting import CanvasComponent

component = CanvasComponent("tracks")


@dataclass(frozen=True)
class LetterAxis:
    """Letters from `first` to `last`, which is the lower one on the other strand; their `letters`, where few enough."""

    first: int
    last: int
    title: str
    letters: str = ""


@dataclass(frozen=True)
class Stretch:
    """Letters to point out, from `first` to `last`, both within."""

    first: int
    last: int
    name: str


@dataclass(frozen=True, eq=False)
class Series:
    """Values at `places`, NaN for none: `name` stands in the legend, `said` where a value is read."""

    name: str
    places: Int[np.ndarray, "..."]
    values: Float[np.ndarray, "..."]
    said: str
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A call: a dot in the `colour` of its series, `full` or hollow, larger where it is the `chosen` one."""

    place: int
    value: float
    said: str
    colour: int
    full: bool
    chosen: bool


@dataclass(frozen=True)
class Arrow:
    """A value that changes."""

    place: int
    before: float
    after: float
    said: str


@dataclass(frozen=True, eq=False)
class Track:
    """One row. Stems and steps may go downwards, where a value is read without its sign; bars stand on each other.

    Cells have a row a series, on a scale about 0 that reaches to `ends[1]`. Boxes are in groups joined by a line.
    `lines` are dotted, at their value.
    """

    form: Literal["stems", "steps", "bars", "cells", "boxes"]
    title: str = ""
    series: Sequence[Series] = ()
    ends: tuple[float, float] = (0, 1)
    lines: Sequence[float] = ()
    marks: Sequence[Mark] = ()
    arrows: Sequence[Arrow] = ()
    boxes: Sequence[Sequence[Stretch]] = ()

    def message(self) -> dict[str, Any]:
        """What the browser is sent, besides the numbers of series."""
        series = [dict(name=one.name, said=one.said, colour=one.colour, dashed=one.dashed) for one in self.series]
        return {**vars(self), "series": series}


def tracks(
    shown: Sequence[Track],
    axis: LetterAxis,
    *,
    key: str,
    spans: Sequence[Stretch] = (),
    file_name: str,
    about: About,
    on_pick: Callable[[int, float], None] | None = None,
    on_drag: Callable[[int, int], None] | None = None,
) -> None:
    """Draw rows above each other over one axis; `spans` are framed in all of them and named above.

    `on_pick` is called with the place and the value (below 0 downwards) that was clicked, `on_drag` with the first and
    last letter that were dragged over.
    """
    arrays = {}
    for row, track in enumerate(shown):
        for number, one in enumerate(track.series):
            arrays[f"{row}.{number}.places"] = one.places.astype(np.uint32)
            arrays[f"{row}.{number}.values"] = one.values.astype(np.float32)

    def pick(value: Any) -> None:
        match value:
            case {"place": int(place), "value": int() | float() as height} if on_pick:
                on_pick(place, float(height))

    def drag(value: Any) -> None:
        match value:
            case {"first": int(first), "last": int(last)} if on_drag and 1 <= first <= last:
                on_drag(first, last)

    header = {"axis": axis, "tracks": list(shown), "spans": list(spans), "file_name": file_name, "about": about}
    events = {"picked": pick if on_pick else None, "dragged": drag if on_drag else None}
    component(key=key, header=header, arrays=arrays, events=events)
