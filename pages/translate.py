"""Translate: type a sentence, read its translation, see what every head of every layer looked at."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.shared import address, controls, heads, record_views
from ui.shared.address import tabs
from ui.store import runs, store
from ui.texts import in_language, t
from ui.translate import first_screen, views

shell.heading(t("translate.title"), t("translate.intro"))
name = controls.checkpoint_choice(*store.TRANSLATORS)
if name is None:
    address.stop()

left, right = st.columns([2, 3], gap="large")
try:
    checkpoint = store.checkpoint(name)
    with left:
        request = controls.request(checkpoint.examples, checkpoint.model.config.max_length)
    best = runs.translation(name, request.text, request.options, request.forced)
    with left:
        node = controls.hypothesis(best, request.options)
    shown = runs.hypothesis(name, request.text, request.options, best, node)
except HeedmapError as error:
    with right:
        controls.explain(error)
    address.stop()

with right:
    record_views.result(shown, best, checkpoint.languages)
screen = st.container()
choice = controls.selection(shown.record, heads.first_head(name, shown))
with screen:
    first_screen.bitext_panel(shown, checkpoint, choice)
overview, detail = st.columns([1, 2], gap="medium")
with overview:
    record_views.all_heads_panel(shown.record, choice)
panels: dict[str, Callable[[], None]] = {
    "heatmap": lambda: record_views.heatmap_panel(shown.record, choice),
    "head_view": lambda: record_views.head_view_panel(shown.record, choice),
    "steps": lambda: views.steps_panel(shown, choice),
    "beams": lambda: views.beams_panel(shown, checkpoint),
    "downloads": lambda: record_views.downloads_panel(shown, choice),
}
with detail:
    opened, place = tabs(
        list(panels),
        key="view",
        text=lambda view: t(f"translate.view_{view}"),
        old={in_language("en", f"translate.view_{view}"): view for view in panels},
    )
    with place:
        panels[opened]()
