"""The page for models that translate: the sentence before and after, and all that can be changed."""

import streamlit as st

from transformer.errors import HeedmapError
from ui.shared import address, controls, downloads, heads
from ui.shared.files import Origin
from ui.store import runs, store
from ui.texts import t
from ui.what_if import changes as changes_
from ui.what_if import corpus, donor, maps, sweep, switchboard, try_this, views
from ui.what_if import runs as changed_runs


def show(name: str) -> None:
    """Everything below the checkpoint's choice."""
    left, right = st.columns([2, 3], gap="large")
    try:
        checkpoint = store.checkpoint(name)
        with left:
            request = controls.request(checkpoint, checkpoint.model.config.max_length)
        before = runs.translation(name, request.text, request.options, request.forced)
    except HeedmapError as error:
        with right:
            controls.explain(error)
        address.stop()
    with left:
        other = changes_.donor_line()
        try_this.try_this(name)
    with right:
        sentences = st.container()
        changes = changes_.asked()
        means = checkpoint.means
        action = changes_.off_choice(means is not None, "" if means is None else means.reference)
        changes = changes_.with_action(changes, action)
        changes_.chips(changes, views.words_for_nobody(before))
    asked = (request.text, request.options, request.forced)
    done = changed_runs.done_by(changes, other)
    try:
        found = changed_runs.on_same_target(name, asked, done)
        after = None if request.forced else changed_runs.again(name, asked, done)
    except HeedmapError as error:
        with right:
            controls.explain(error)
        done, after = changed_runs.NOTHING, before
        found = changed_runs.on_same_target(name, asked, done)
    with sentences:
        views.sentences(before, after)
    choice = controls.selection(before.record, heads.first_head(name, before))
    origin = Origin(name, request.text, found.after.record.interventions)
    board, effects = st.columns([2, 3], gap="large")
    with board:
        switchboard.switchboard(found.after.record, choice, changes, origin)
        step = views.step_choice(found, (name, *asked, done))
    with effects:
        views.effects_panel(found, step, origin)
    views.step_panel(found, step)
    maps.map_panel(
        found.before.record, found.after.record, choice.site, choice.head, views.hides(before, choice.site),
        owner=(name, *asked), origin=origin,
    )  # fmt: skip
    if other:
        donor.donor_panel(name, asked, done, before, choice, other)
    sweep.sweep_panel(name, asked, before, action)
    corpus.corpus_panel(checkpoint.folder, changes)
    with st.expander(t("what_if.take_away"), icon=":material/download:"):
        downloads.downloads_panel(found.after, choice)
