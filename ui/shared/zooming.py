"""Long maps: one head as it is seen through a window, which stands in the address, whatever page shows it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal
from weakref import ref

import streamlit as st

from transformer.attention.record import AttentionMap
from transformer.attention.zoom import Zoom, head_name
from transformer.messages import say
from transformer.plots.canvas.about import About
from transformer.plots.canvas.views import Axes
from transformer.plots.export import csv
from transformer.runs.concurrency import forward_slot, letting_others
from ui.components.heatmap.component import Window, heatmap_window
from ui.shared.address import belong_to, parameter, put, switch, whole_numbers
from ui.shared.part import in_page, part
from ui.store.progress import with_progress
from ui.texts import plain, said, t

LONG = 256
"""Queries or keys up to which a map is drawn cell by cell as a whole: more have less than three pixels each."""

ROWS, COLUMNS = "rows", "columns"
"""The query parameters of the window: first and last row and column, counted from 1."""


def is_long(attention: AttentionMap) -> bool:
    """Whether a map is seen through a window."""
    return max(attention.shape) > LONG


def zoomed(key: tuple[Hashable, ...], attention: AttentionMap, head: int | Literal["mean"]) -> Zoom | None:
    """A head that can be looked at near and far; passed over once, with a bar and a button that stops it, then None.

    `key` names the run, as caches do.
    """
    if attention.n_heads == 1:
        head = 0  # which is their mean
    label = plain("zooming.passing", site=attention.site, head=said(head_name(attention, head)))

    def compute(progress: Callable[[float], None]) -> Zoom:
        with forward_slot():
            return Zoom.of(attention, head, letting_others(progress))

    return with_progress("zoom", (*key, str(attention.site), head), label, label, lambda: lambda _: label, compute)


@dataclass(frozen=True)
class Said:
    """What is said of a map: what its axes are, lines before the rows and columns of `edges`, what files are called."""

    query_axis: str
    key_axis: str
    stem: str
    about: About
    edges: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


def zoom_panel(zoom: Zoom, owner: Hashable, shown: Said, *, key: str) -> None:
    """Draw a head through its window, and again whenever the window moves, without the rest of the page.

    `owner` is what the window is about: another one is seen as a whole at first. Called once in a run.
    """
    alive = ref(zoom)  # a part outlives the run that drew it, and must not keep a long record

    def draw() -> None:
        found = alive()
        if found is None:
            in_page()
            return
        belong_to(owner, ROWS, COLUMNS)
        _draw(found, shown, key)

    part(draw)


def window_of(shape: tuple[int, int]) -> Window:
    """The window that the address holds; the whole map where it holds none that lies within."""
    spans = [_span(parameter(key), count) for key, count in zip((ROWS, COLUMNS), shape, strict=True)]
    (top, bottom), (left, right) = spans
    return Window(top, bottom, left, right)


def _draw(zoom: Zoom, shown: Said, key: str) -> None:
    relative = switch(t("zooming.relative"), False, key="relative-zoom", help=t("zooming.relative_help"))
    window, attention = window_of(zoom.shape), zoom.attention
    view = zoom.view(window.rows, window.keys)
    heatmap_window(
        zoom.whole(),
        view,
        window,
        shape=zoom.shape,
        largest=zoom.largest,
        queries=lambda rows: [say(label) for label in attention.queries.labels[rows]],
        keys=lambda keys: [say(label) for label in attention.keys.labels[keys]],
        axes=Axes(shown.query_axis, shown.key_axis, t("zooming.exact"), shown.about.lines, shown.edges),
        title=shown.about.title,
        key=key,
        relative=relative,
        file_name=shown.stem,
        on_window=lambda found: _look(found, attention.shape),
    )
    st.download_button(
        t("zooming.download"), lambda: csv(zoom.picture(view)), f"{shown.stem}.csv", "text/csv", on_click="ignore",
        help=t("zooming.download_help"), key=f"{key}-csv",
    )  # fmt: skip


def _look(window: Window, shape: tuple[int, int]) -> None:
    """Look through another window from the next run on."""
    spans = {ROWS: (window.top, window.bottom, shape[0]), COLUMNS: (window.left, window.right, shape[1])}
    put(
        **{
            key: None if (first, last) == (0, count) else f"{first + 1}-{last}"
            for key, (first, last, count) in spans.items()
        }
    )


def _span(text: str | None, count: int) -> tuple[int, int]:
    found = whole_numbers(text or "", "-")
    if found is None or len(found) != 2 or not 1 <= found[0] <= found[1] <= count:
        return 0, count
    return found[0] - 1, found[1]
