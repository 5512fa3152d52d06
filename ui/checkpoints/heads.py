"""The heads of a run: another head is the browser's to draw; the rest of the page stays as it is."""

from collections.abc import Callable, Hashable
from weakref import ref

import streamlit as st

from transformer.attention.measures import strongest_head
from transformer.runs.any_model import ModelRun
from ui.shared import address, controls, downloads, record_views
from ui.shared.files import Origin
from ui.shared.part import in_page, part
from ui.texts import t

DOWNLOADS = "downloads"
"""The view that the server draws, and that follows the chosen head."""


def heads_panel(shown: ModelRun, whole: ModelRun, key: Hashable) -> None:
    """Every head of a run, small, and one of them large; at first the surest of `whole`, whichever step is shown.

    `key` names the run, as caches do.
    """
    kind = next(iter(controls.kinds(shown.record)))
    strongest = strongest_head(whole.record, kind)
    first, alive = (strongest.layer, strongest.head), ref(shown)  # a part must not keep a record

    def draw() -> None:
        run = alive()
        if run is None:
            in_page()
        else:
            _draw(run, first, key)

    part(draw)


def _draw(shown: ModelRun, first: tuple[int, int], key: Hashable) -> None:
    origin = Origin(shown.checkpoint, shown.input, shown.record.interventions)
    with st.container(key="columns"):
        small, detail = st.columns([7, 11], gap="small")
    with small:
        overview = st.container(key="overview")
    with overview:
        chooser = st.container()
        words, special = controls.form_of_maps(has_scores=True)
    browser = record_views.bring(shown.record, key, first, words, special)
    panels: dict[str, Callable[[], None]] = {
        "heatmap": lambda: record_views.heatmap_panel(browser, origin),
        "head_view": lambda: record_views.head_view_panel(browser, origin),
        "measures": lambda: record_views.measures_panel(shown.record, key, origin),
        DOWNLOADS: lambda: downloads.downloads_panel(shown, browser.choice),
    }
    with detail:
        opened, place = address.tabs(list(panels), key="map", text=lambda panel: t(f"checkpoints.view_{panel}"))
    with overview:
        record_views.all_heads_panel(browser, origin)
    with place:
        panels[opened]()
    with chooser:  # after the view, whose switch of scores it follows
        record_views.head_panel(browser, followed=opened == DOWNLOADS)
