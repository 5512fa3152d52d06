"""The heads of a run: the browser draws them where it can, else the server; the rest of the page stays as it is."""

from collections.abc import Callable
from weakref import ref

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.attention.measures import strongest_head
from transformer.runs.any_model import AnyRun
from ui.shared import address, controls, downloads, in_browser, record_views
from ui.shared.files import Origin
from ui.shared.part import in_page, part
from ui.texts import t

DOWNLOADS = "downloads"
"""The view that the server draws whatever it is of, and that follows the chosen head."""


def heads_panel(shown: AnyRun, whole: AnyRun) -> None:
    """Every head of a run, small, and one of them large; at first the surest of `whole`, whichever step is shown."""
    kind = next(iter(controls.kinds(shown.record)))
    strongest = strongest_head(whole.record, kind)
    first, alive = (strongest.layer, strongest.head), ref(shown)  # a part must not keep a record

    def draw() -> None:
        run = alive()
        if run is None:
            in_page()
            return
        in_browser.where_it_fits(
            run.record, lambda: _drawn_by_browser(run, first), lambda: _drawn_by_server(run, first)
        )

    part(draw)


def _drawn_by_browser(shown: AnyRun, first: tuple[int, int]) -> None:
    """A choice of the head reaches the server only where what can be downloaded follows it."""
    origin = Origin(shown.checkpoint, shown.input, shown.record.interventions)
    overview, detail = _places()
    with overview:
        chooser = st.container()
        with st.container(horizontal=True, gap="small"):
            words, special = controls.form_of_maps()
    browser = in_browser.bring(shown.record, first, words, special)
    panels: dict[str, Callable[[], None]] = {
        "heatmap": lambda: in_browser.heatmap_panel(browser, origin),
        "head_view": lambda: in_browser.head_view_panel(browser, origin),
        "measures": lambda: record_views.measures_panel(shown.record, origin),
        DOWNLOADS: lambda: downloads.downloads_panel(shown, browser.choice),
    }
    with detail:
        opened, place = _tabs(panels)
    with chooser:
        in_browser.head_panel(browser, followed=opened == DOWNLOADS)
    with overview:
        in_browser.all_heads_panel(browser, origin)
    with place:
        panels[opened]()


def _drawn_by_server(shown: AnyRun, first: tuple[int, int]) -> None:
    """A record that is too large for the browser, or of layers that differ; or its scores."""
    origin = Origin(shown.checkpoint, shown.input, shown.record.interventions)
    overview, detail = _places()
    with overview:
        choice = controls.selection(shown.record, first)
        record_views.all_heads_panel(shown.record, choice, origin=origin)
    panels: dict[str, Callable[[], None]] = {
        "heatmap": lambda: record_views.heatmap_panel(shown.record, choice, origin=origin),
        "head_view": lambda: record_views.head_view_panel(shown.record, choice, origin=origin),
        "measures": lambda: record_views.measures_panel(shown.record, origin),
        DOWNLOADS: lambda: downloads.downloads_panel(shown, choice),
    }
    with detail:
        opened, place = _tabs(panels)
    with place:
        panels[opened]()


def _places() -> tuple[DeltaGenerator, DeltaGenerator]:
    """For all heads and what chooses among them, and for the views of one."""
    with st.container(key="columns"):
        small, large = st.columns([7, 11], gap="small")
    with small:
        return st.container(key="overview"), large


def _tabs(panels: dict[str, Callable[[], None]]) -> tuple[str, DeltaGenerator]:
    """Which view is open, and its place."""
    return address.tabs(list(panels), key="map", text=lambda panel: t(f"checkpoints.view_{panel}"))
