"""Align: two models on one sentence, their alignments side by side; what changed between them."""

import streamlit as st

from heedmap.errors import HeedmapError
from ui import shell
from ui.align import choices, views
from ui.shared import address, controls
from ui.shared.part import part
from ui.shared.record_views import record_notes
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
with shell.explained(picture):
    with models:
        chosen = choices.model_choice(names)
    checkpoints = [store.checkpoint(name) for name in chosen]
    longest = min(checkpoint.model.config.max_length for checkpoint in checkpoints)
    with sentence:
        request = controls.request(checkpoints[0], longest, choices.opening(chosen))


def looked_at() -> None:
    """What depends on the target and the heads: the runs are looked up anew, since a part keeps nothing."""
    with models:
        shown = choices.pair(chosen, request)
    with headline:
        views.finding(shown)
        record_notes(*(run.record for side in shown.sides for run in (side.own, side.read)))
    with screens:
        opened = address.named("align.screen", list(views.PANELS), key="screen", bare=True)
    with picture:
        with st.container(key="align-panel"):
            try:
                views.PANELS[opened](shown)
            except HeedmapError as error:
                controls.explain(error)
        views.translations(shown)


with picture:
    part(looked_at)
