"""Align: two models on one sentence, their alignments side by side; what changed between them."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.align import agreement, changes, choices, files, finding, views
from ui.shared import address, controls
from ui.shared.familiarity import warn_of_unlike
from ui.shared.part import part
from ui.store import store
from ui.texts import t

shell.heading(t("align.title"), t("align.intro"))
names = choices.models()
if not names:
    st.error(t("align.none"))
    address.stop()
sentence, headline = st.container(), st.container(key="finding")
with st.container(horizontal=True, gap="small", vertical_alignment="center"):
    screens = st.container(width="content")
    models = st.popover(t("align.models"), icon=":material/compare_arrows:")
picture = st.container()
try:
    with models:
        chosen = choices.model_choice(names)
    checkpoints = [store.checkpoint(name) for name in chosen]
    longest = min(checkpoint.model.config.max_length for checkpoint in checkpoints)
    with sentence:
        request = controls.request(checkpoints[0], longest, choices.opening(chosen))
except HeedmapError as error:
    with picture:
        controls.explain(error)
    address.stop()


def looked_at() -> None:
    """What depends on the target and the heads: the runs are looked up anew, since a part keeps nothing."""
    with models:
        words = choices.words_choice()
    shown = choices.pair(*chosen, request, words)
    with models:
        aligned = choices.head_choice(shown)
    with headline:
        finding.finding(shown)
        any(warn_of_unlike(checkpoint, side.own) for checkpoint, side in zip(checkpoints, shown.sides, strict=True))
    panels: dict[str, Callable[[], None]] = {
        "side": lambda: views.side_by_side(shown, aligned, words),
        "agreement": lambda: agreement.agreement_panel(shown, aligned),
        "changes": lambda: changes.changes_panel(shown),
        "downloads": lambda: files.downloads_panel(shown, aligned, lambda: views.side_by_side(shown, aligned, words)),
    }
    with screens:
        opened = choices.screen()
    with picture:
        with st.container(key="align-panel"):
            try:
                panels[opened]()
            except HeedmapError as error:
                controls.explain(error)
        views.translations(shown)


with picture:
    part(looked_at)
