"""Align: two models on one sentence, their alignments side by side; what changed between them, and how both learn."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.align import agreement, changes, choices, lesson, training, views
from ui.shared import address, controls
from ui.store import store
from ui.texts import t

shell.heading(t("align.title"), t("align.intro"))
names = choices.models()
if not names:
    st.error(t("align.none"))
    address.stop()
try:
    first, second = choices.model_choice(names)
    checkpoints = [store.checkpoint(name) for name in (first, second)]
    longest = min(checkpoint.model.config.max_length for checkpoint in checkpoints)
    request = controls.request(checkpoints[0].examples, longest)
    words = choices.words_choice()
    shown = choices.pair(first, second, request, words)
except HeedmapError as error:
    controls.explain(error)
    address.stop()

views.translations(shown)
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    aligned = choices.head_choice(shown)
panels: dict[str, Callable[[], None]] = {
    "side": lambda: views.side_by_side(shown, aligned, words),
    "agreement": lambda: agreement.agreement_panel(shown, aligned),
    "changes": lambda: changes.changes_panel(shown),
    "training": lambda: training.training_panel(shown, aligned, request),
    "lesson": lambda: lesson.lesson_panel(shown, request),
    "downloads": lambda: agreement.downloads_panel(shown, aligned),
}
try:
    panels[choices.screen()]()
except HeedmapError as error:
    controls.explain(error)
