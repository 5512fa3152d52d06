"""Translate: type a sentence, read its translation, see what every head of every layer looked at."""

from collections.abc import Callable

import streamlit as st

from transformer import Checkpoint, Translation
from transformer.errors import HeedmapError
from transformer.runs.measures.out_of_distribution import known_bounds
from ui import shell
from ui.shared import address, controls, downloads, heads, record_views, subject
from ui.shared.files import Origin
from ui.shared.marks import listen
from ui.shared.part import in_page, part
from ui.store import runs, store
from ui.texts import in_language, plain, t
from ui.translate import first_screen, sources, views

SLOW = "sources"
"""The view whose work takes long enough for a button that stops it."""

FOLLOWING = ("steps", "downloads")
"""Views that the server draws, and that show the chosen head."""

shell.heading(t("translate.title"), t("translate.intro"))
chosen = controls.checkpoint_choice(*store.TRANSLATORS)
if chosen is None:
    address.stop()
name: str = chosen  # also where it is used later, within functions

form, screen = st.container(key="request-area"), st.container(key="first-screen")
chooser, below = st.container(key="chooser"), st.container(key="columns")
with below:
    beside, detail = st.columns([7, 11], gap="small")
with beside:
    small, display = st.container(), st.container()
hypothesis = st.container()
try:
    checkpoint = store.checkpoint(name)
    with form:
        request = controls.request(checkpoint, checkpoint.model.config.max_length)
    best = runs.translation(name, request.text, request.options, request.forced)
    own = best if request.forced is None else runs.translation(name, request.text, request.options, None)
    with hypothesis:
        node = controls.hypothesis(best, request.options)
    shown = runs.hypothesis(name, request.text, request.options, best, node)
    first = heads.first_head(name, shown)
    familiar = known_bounds(checkpoint)
except HeedmapError as error:
    with screen:
        controls.explain(error)
    address.stop()

with screen:
    drawn = st.container()
    first_screen.result(shown, best, own, checkpoint, familiar)


def looked_at() -> None:
    """What depends on the head: the record is looked up anew, since a part keeps nothing."""
    checkpoint = store.checkpoint(name)
    translated = runs.translation(name, request.text, request.options, request.forced)
    shown = runs.hypothesis(name, request.text, request.options, translated, node)
    origin = Origin(shown.checkpoint, shown.input)
    with display:
        words, special = controls.form_of_maps(has_scores=True)
    if address.parameter("view") == SLOW:
        subject.settle()
    else:
        first_screen.take_mark(shown, first, words, special)
    key = (store.revision(name), request.text, request.options, request.forced, node)
    browser = record_views.bring(
        shown.record, key, first, words, special,
        lambda: runs.deciding(name, request.text, request.options, request.forced, node),
    )  # fmt: skip
    panels: dict[str, Callable[[], None]] = {
        "heatmap": lambda: record_views.heatmap_panel(browser, origin),
        "head_view": lambda: record_views.head_view_panel(browser, origin),
        **server_panels(shown, checkpoint, browser.choice),
    }
    with drawn:
        first_screen.bitext_panel(shown, checkpoint, browser)
    with detail:
        place = st.container(key="panel")
    with place:
        view = open_view(panels)
    with small:
        record_views.all_heads_panel(browser, origin, heads.roles_of(name))
    with place:
        panels[view]()
    with chooser:  # after the view, whose switch of scores it follows
        first_screen.head_panel(name, browser, view in FOLLOWING)


def server_panels(
    shown: Translation, checkpoint: Checkpoint, choice: controls.Selection
) -> dict[str, Callable[[], None]]:
    """The views that only the server can draw."""
    return {
        "sources": lambda: sources.sources_panel(checkpoint, request, shown),
        "steps": lambda: views.steps_panel(shown, choice),
        "beams": lambda: views.beams_panel(shown, checkpoint),
        "downloads": lambda: downloads.downloads_panel(shown, choice),
    }


def open_view(panels: dict[str, Callable[[], None]]) -> str:
    """Which of the views is open."""
    view = address.choice(
        t("translate.view"),
        list(panels),
        key="view",
        text=lambda view: plain(f"translate.view_{view}"),
        bare=True,
        old={in_language("en", f"translate.view_{view}"): view for view in panels},
    )
    if view == SLOW:
        in_page()
    return view


part(listen)
if address.parameter("view") == SLOW:
    looked_at()
else:
    part(looked_at)
