"""Align: two models on one sentence, their alignments side by side; what changed between them, and how both learn."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import AttentionAtlasError
from ui import align, align_agreement, align_changes, align_lesson, align_training, align_views, cached, controls, frame
from ui.texts import t

frame.heading(t("align.title"), t("align.intro"))
names = align.models()
if not names:
    st.error(t("align.none"))
    st.stop()
try:
    first, second = align.model_choice(names)
    checkpoints = [cached.checkpoint(name) for name in (first, second)]
    longest = min(checkpoint.model.config.max_length for checkpoint in checkpoints)
    request = controls.request(checkpoints[0].examples, longest)
    words = align.words_choice()
    shown = align.pair(first, second, request, words)
except AttentionAtlasError as error:
    controls.explain(error)
    st.stop()

align_views.translations(shown)
with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
    aligned = align.head_choice(shown)
panels: dict[str, Callable[[], None]] = {
    "side": lambda: align_views.side_by_side(shown, aligned, words),
    "agreement": lambda: align_agreement.agreement_panel(shown, aligned),
    "changes": lambda: align_changes.changes_panel(shown),
    "training": lambda: align_training.training_panel(shown, aligned, request),
    "lesson": lambda: align_lesson.lesson_panel(shown, request),
    "downloads": lambda: align_agreement.downloads_panel(shown, aligned),
}
try:
    panels[align.screen()]()
except AttentionAtlasError as error:
    controls.explain(error)
