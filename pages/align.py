"""Align: two models on one sentence, their alignments side by side; what changed between them, and how both learn."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.align import agreement, changes, choices, files, lesson, training, views
from ui.shared import address, controls
from ui.shared.part import part
from ui.store import store
from ui.texts import t

shell.heading(t("align.title"), t("align.intro"))
names = choices.models()
if not names:
    st.error(t("align.none"))
    address.stop()
beside, picture = st.columns([2, 5], gap="medium")
with beside:
    sentence = st.container()
    address.switch(t("align.models"), False, key="models")  # to be seen where the window is narrow
    models = st.container(key="of-models")
try:
    with models:
        first, second = choices.model_choice(names)
    checkpoints = [store.checkpoint(name) for name in (first, second)]
    longest = min(checkpoint.model.config.max_length for checkpoint in checkpoints)
    with sentence:
        request = controls.request(checkpoints[0], longest)
except HeedmapError as error:
    with picture:
        controls.explain(error)
    address.stop()


def looked_at() -> None:
    """What depends on the target and the heads: the runs are looked up anew, since a part keeps nothing."""
    with models:
        words = choices.words_choice()
    shown = choices.pair(first, second, request, words)
    with models:
        aligned = choices.head_choice(shown)
    panels: dict[str, Callable[[], None]] = {
        "side": lambda: views.side_by_side(shown, aligned, words),
        "agreement": lambda: agreement.agreement_panel(shown, aligned),
        "changes": lambda: changes.changes_panel(shown),
        "training": lambda: training.training_panel(shown, aligned, request),
        "lesson": lambda: lesson.lesson_panel(shown, request),
        "downloads": lambda: files.downloads_panel(shown, aligned),
    }
    opened = choices.screen()
    with st.container(key="align-panel"):
        try:
            panels[opened]()
        except HeedmapError as error:
            controls.explain(error)
    views.translations(shown)


with picture:
    part(looked_at)
