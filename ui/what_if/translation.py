"""The page for models that translate: the sentence before and after, and all that can be changed."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import Translation
from transformer.errors import HeedmapError
from transformer.nn.protocols import written_length
from transformer.runs.what_if import SameTarget
from ui.shared import address, controls, downloads, heads, switchboard
from ui.shared import changed_maps as maps
from ui.shared import changes as changes_
from ui.shared.changes import Changes
from ui.shared.controls import Selection
from ui.shared.files import Origin
from ui.shared.part import part
from ui.store import runs, store
from ui.texts import t
from ui.what_if import corpus, donor, sweep, try_this, views
from ui.what_if import runs as changed_runs
from ui.what_if.off import off_choice
from ui.what_if.runs import Asked, Done


def show(name: str) -> None:
    """Everything below the checkpoint's choice."""
    with st.container(key="change-area"):
        left, right = st.columns([2, 3], gap="large")
    try:
        checkpoint = store.checkpoint(name)
        with left:
            request = controls.request(checkpoint, written_length(checkpoint.translator()[0].config))
        runs.translation(name, request.text, request.options, request.forced)
        if checkpoint.means is None:
            changes_.without_means()
    except HeedmapError as error:
        with right:
            controls.explain(error)
        address.stop()
    with left:
        other = changes_.donor_line()
        try_this.try_this(name)
    changed = partial(_changed, name, (request.text, request.options, request.forced), other, right)
    if sweep.is_asked():
        changed()
    else:
        part(changed)


def _changed(name: str, asked: Asked, other: str, right: DeltaGenerator) -> None:
    """What is changed, and what comes of it: looked up anew, since a part keeps nothing."""
    checkpoint, before = store.checkpoint(name), runs.translation(name, *asked)
    with right:
        sentences = st.container(key="sentences")
        force = changes_.in_force(changes_.asked(), partial(_same_target, name, asked, other))
        action = off_choice(checkpoint)
        changes_.chips(force, views.words_for_nobody(before))
    changes = force.changes
    done, found = changed_runs.done_by(changes, other), _same_target(name, asked, other, changes)
    choice = controls.selection(before.record, heads.first_head(name, before))
    origin = Origin(name, asked[0], found.after.record.interventions)
    board, effects = st.columns([2, 3], gap="large")
    with board:
        switchboard.switchboard(found.after.record, choice, changes, action, origin)
        slider = st.container()
    with st.container():
        part(partial(_steps, name, asked, done, origin, slider, effects), views.STEP)
    with sentences:  # above, but after the bars, which need no search
        views.sentences(before, _again(name, asked, other, changes))
    with st.container():
        part(partial(_map, name, asked, done, origin, choice), *maps.KEYS)
    if other:
        donor.donor_panel(name, asked, done, before, choice, other)
    sweeping = sweep.sweep_panel(name, asked, before, action)
    with st.container():
        part(partial(corpus.corpus_panel, name, changes), corpus.MEASURE)
    with st.expander(t("what_if.take_away"), icon=":material/download:"):
        downloads.downloads_panel(found.after, choice)
    if sweeping:
        st.rerun()


def _steps(
    name: str, asked: Asked, done: Done, origin: Origin, slider: DeltaGenerator, effects: DeltaGenerator
) -> None:
    """What became of every written token, and of one of them closely."""
    found = changed_runs.on_same_target(name, asked, done)
    with slider:
        step = views.step_choice(found.steps, (name, *asked, done))
    with effects:
        views.effects_panel(found, step, origin)
    views.step_panel(found.steps[step], found.before.steps[step], found.after.steps[step])


def _map(name: str, asked: Asked, done: Done, origin: Origin, choice: Selection) -> None:
    """The map of the chosen head, and what can be done to a cell of it."""
    before, found = runs.translation(name, *asked), changed_runs.on_same_target(name, asked, done)
    maps.map_panel(
        found.before.record, found.after.record, choice.site, choice.head, views.hides(before, choice.site),
        owner=(name, *asked), origin=origin,
    )  # fmt: skip


def _same_target(name: str, asked: Asked, other: str, changes: Changes) -> SameTarget:
    """The run under changes; `other` is the donor's sentence."""
    return changed_runs.on_same_target(name, asked, changed_runs.done_by(changes, other))


def _again(name: str, asked: Asked, other: str, changes: Changes) -> Translation | None:
    """What the model writes now; None where a target is forced. Of changes that no search takes, it is said why."""
    if asked[2] is not None:
        return None

    def search(some: Changes) -> Translation:
        return changed_runs.again(name, asked, changed_runs.done_by(some, other))

    force = changes_.in_force(changes, search)
    for _, error in force.void:
        controls.explain(error)
    return search(force.changes)
