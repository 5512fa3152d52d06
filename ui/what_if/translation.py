"""The page for models that translate: the sentence before and after, and all that can be changed."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import DecodingOptions, Translation
from transformer.checkpoint.checkpoint import ChangedExample
from transformer.errors import HeedmapError
from transformer.nn.protocols import written_length
from transformer.runs.what_if import SameTarget
from ui.shared import address, controls, downloads, familiarity, heads, record_views, switchboard
from ui.shared import changed_maps as maps
from ui.shared import changes as changes_
from ui.shared.changes import Changes
from ui.shared.controls import Selection
from ui.shared.files import Origin
from ui.shared.part import part
from ui.store import runs, store
from ui.texts import t
from ui.what_if import corpus, donor, off, sweep, try_this, views
from ui.what_if import runs as changed_runs
from ui.what_if.runs import Asked, Done


def show(name: str) -> None:
    """Everything below the checkpoint's choice."""
    try:
        checkpoint = store.checkpoint(name)
        longest = written_length(checkpoint.translator()[0].config)
        request = controls.request(checkpoint, longest, changes_.opening(checkpoint))
        before = runs.translation(name, request.text, request.options, request.forced)
        changes_.open_with(checkpoint, request.text)
        if checkpoint.means is None:
            changes_.without_means()
    except HeedmapError as error:
        controls.explain(error)
        address.stop()
    familiarity.warn_of_unlike(checkpoint, before)
    record_views.record_notes(before.record)
    board, answer = st.columns(2, gap="large")
    with answer:
        with st.container(horizontal=True, gap="small"):
            try_this.try_this(checkpoint, "text", partial(_tried, name, request.options))
            with st.popover(t("what_if.second"), icon=":material/splitscreen_right:"):
                other = changes_.donor_line()
        sentence, effects = st.container(key="sentences"), st.container()
    changed = partial(
        _changed, name, (request.text, request.options, request.forced), other, views.Places(board, sentence, effects)
    )
    if sweep.is_asked():
        changed()
    else:
        part(changed)


def _tried(name: str, options: DecodingOptions, example: ChangedExample) -> None:
    """What a change worth trying does to the sentence."""
    asked: Asked = (example.text, options, None)
    after = changed_runs.again(name, asked, (example.change, example.donor))
    views.source_and_two_texts(example.text, runs.translation(name, *asked).text, after.text)


def _changed(name: str, asked: Asked, other: str, places: views.Places) -> None:
    """What is changed, and what comes of it: looked up anew, since a part keeps nothing."""
    checkpoint, before = store.checkpoint(name), runs.translation(name, *asked)
    with places.sentence:
        force = changes_.in_force(changes_.asked(), partial(_same_target, name, asked, other))
        changes, nobody = force.changes, views.words_for_nobody(before)
        views.words_to_hide(before, nobody, changes)
        changes_.chips(force, nobody)
        sentences = st.container(key="texts")
        sentences.markdown(f"**{t('what_if.again')}**")
    done, found = changed_runs.done_by(changes, other), _same_target(name, asked, other, changes)
    origin = Origin(name, asked[0], found.after.record.interventions)
    with places.board, st.container(key="board"):
        kind, switches, heads_ = st.container(key="kind-at"), st.container(), st.container()
    steps, chosen, map_ = (st.container() for _ in range(3))
    with chosen:
        choice = controls.selection(before.record, heads.first_head(name, before), kind_at=kind)
    with switches, st.popover(t("what_if.switches"), icon=":material/tune:"):
        action = off.off_choice(checkpoint)
        switchboard.switches(found.after.record, choice.kind, action)
    with heads_:
        switchboard.switchboard(found.after.record, choice, changes, action, origin)
    with steps:
        part(partial(_steps, name, asked, done, origin, places.effects), views.STEP)
    with sentences:  # above, but after the bars, which need no search
        after = _again(name, asked, other, changes)
        views.two_texts(before.text, None if after is None else after.text)
    with map_:
        part(partial(_map, name, asked, done, origin, choice), *maps.KEYS)
    if other:
        donor.donor_panel(name, asked, done, before, choice, other)
    sweeping = sweep.sweep_panel(name, asked, before, action)
    with st.container():
        part(partial(corpus.corpus_panel, name, changes), corpus.OPEN, corpus.MEASURE)
    with st.expander(t("what_if.take_away"), icon=":material/download:"):
        downloads.downloads_panel(found.after, choice)
    if sweeping:
        st.rerun()


def _steps(name: str, asked: Asked, done: Done, origin: Origin, effects: DeltaGenerator) -> None:
    """What became of every written token, and of one of them closely."""
    found = changed_runs.on_same_target(name, asked, done)
    step = views.step_choice(found.steps, (name, *asked, done), written=found.before.axes.written)
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
