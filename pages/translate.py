"""Translate: type a sentence, read its translation, see what every head of every layer looked at."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from ui import shell
from ui.shared import address, controls, files, heads, record_views, subject
from ui.shared.files import Provenance
from ui.shared.part import in_page, part
from ui.store import runs, store
from ui.texts import t
from ui.translate import views

SLOW = "sources"
"""The view whose work takes long enough for a button that stops it."""

FOLLOWING = "downloads"
"""The view that the server draws, and that shows the chosen head."""

shell.heading(t("translate.title"), t("translate.intro"))
name = controls.checkpoint_choice(*store.TRANSLATORS)
form, screen = st.container(key="request-area"), st.container(key="first-screen")
chooser, below = st.container(key="chooser"), st.container(key="columns")
with below:
    beside, detail = st.columns([7, 11], gap="small")
with beside:
    small, display = st.container(), st.container()
hypothesis = st.container()
with shell.explained(screen):
    checkpoint = store.checkpoint(name)
    with form:
        request = controls.request(checkpoint, checkpoint.model.config.max_length)
    best = runs.translation(name, *request)
    own = best if request.forced is None else runs.translation(name, request.text, request.options, None)
    with hypothesis:
        node = controls.hypothesis(best, request.options)
    shown = runs.hypothesis(name, *request, node)
    first = heads.first_head(name, shown)

with screen:
    record_views.record_notes(shown.record)
    drawn = st.container()
    views.result(shown, best, own, checkpoint)


def looked_at() -> None:
    """What depends on the head: the record is looked up anew, since a part keeps nothing."""
    checkpoint = store.checkpoint(name)
    shown = runs.hypothesis(name, *request, node)
    origin = Provenance(shown.checkpoint, shown.input)
    with display:
        words, special = controls.form_of_maps(has_scores=True)
    if address.parameter("view") == SLOW:
        subject.settle()
    else:
        views.take_mark(shown, first, words, special)
    key = (store.revision(name), *request, node)
    browser = record_views.bring(shown.record, key, first, words, special, partial(runs.deciding, name, *request, node))
    panels: dict[str, Callable[[], None]] = {
        "heatmap": lambda: record_views.heatmap_panel(browser, origin),
        "head_view": lambda: record_views.head_view_panel(browser, origin),
        SLOW: lambda: views.sources_panel(checkpoint, request, shown),
        "steps": lambda: views.steps_panel(shown),
        "beams": lambda: views.beams_panel(shown, checkpoint),
        FOLLOWING: lambda: files.downloads_panel(shown, browser.choice),
    }
    with drawn:
        views.bitext_panel(shown, checkpoint, browser)
    with detail:
        place = st.container(key="panel")
    with place:
        view = address.named("translate.view", list(panels), key="view", bare=True)
        if view == SLOW:
            in_page()
    with small:
        record_views.all_heads_panel(browser, origin, heads.roles_of(name))
    with place:
        panels[view]()
    with chooser:  # after the view, whose switch of scores it follows
        views.head_panel(name, browser, view == FOLLOWING)


part(views.listen)
if address.parameter("view") == SLOW:
    looked_at()
else:
    part(looked_at)
