"""The page for classifiers of sequences: probabilities, letters and maps before and after a change."""

from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import Intervention, Record
from transformer.attention.interventions.text import to_text
from transformer.errors import HeedmapError
from transformer.plots.export import plot_config
from transformer.plots.sequence_tracks import Tracks, sequence_tracks
from transformer.runs.sequences.classify import Classification, classifier, read
from transformer.runs.what_if import ClassEffect, class_effects
from transformer.sequences.folding import folded, received
from ui.components.all_heads.component import LARGEST_SIDE, all_heads
from ui.shared import address, controls, elsewhere
from ui.shared import changed_maps as maps
from ui.shared import changes as changes_
from ui.shared.changes import Changes
from ui.shared.files import Origin
from ui.shared.part import part
from ui.shared.sequence_controls import MEAN, POOLING, Place, place, typed_sequence
from ui.shared.switchboard import way_name
from ui.shared.theme import is_dark
from ui.store import store
from ui.texts import plain, t
from ui.what_if import runs, views
from ui.what_if.off import off_choice

MOST_WINDOWS = 600
"""Windows of a sequence that is looked at here: its maps are computed whole."""


def show(name: str) -> None:
    """Everything below the checkpoint's choice."""
    left, right = st.columns([2, 3], gap="large")
    sequence = ""
    try:
        checkpoint = store.checkpoint(name)
        model, _ = classifier(checkpoint)
        longest = MOST_WINDOWS // len(model.config.widths)
        with left:
            typed = typed_sequence(checkpoint, longest)
        sequence = typed.sequence
        read(checkpoint, sequence, longest)
        runs.classified(name, sequence, "")
        if checkpoint.means is None:
            changes_.without_means()
    except HeedmapError as error:
        with right:
            controls.explain(error)
            elsewhere.explain_long(error, name, sequence)
        address.stop()
    part(partial(_changed, name, sequence, typed.id, right))


def _changed(name: str, sequence: str, record_id: str, right: DeltaGenerator) -> None:
    """What is changed, and what comes of it: looked up anew, since a part keeps nothing."""
    before = runs.classified(name, sequence, "")
    with right:
        answer = st.container()
        force = changes_.in_force(changes_.asked(), lambda some: runs.classified(name, sequence, to_text(some)))
        action = off_choice(store.checkpoint(name))
        changes_.chips(force)
    changes, done = force.changes, to_text(force.changes)
    after = runs.classified(name, sequence, done)
    origin = Origin(name, record_id or sequence[:12], after.record.interventions)
    with answer:
        _answer(class_effects(before.classes, before.probabilities, after.probabilities), before, origin)
    chosen = place(before)
    board, tracks = st.columns([2, 3], gap="large")
    with board:
        _switchboard(after.record, chosen, changes, action, origin)
    with tracks:
        _tracks(before, after, chosen, origin)
    with st.container():
        part(partial(_map, name, sequence, done, chosen, origin), *maps.KEYS)


def _map(name: str, sequence: str, done: str, chosen: Place, origin: Origin) -> None:
    """The map of the chosen head, and what can be done to a cell of it."""
    before, after = (runs.classified(name, sequence, changes) for changes in ("", done))
    maps.map_panel(
        before.record, after.record, chosen.site, chosen.head, _hides(before, chosen.site),
        owner=(name, sequence), origin=origin, hiding="window_for_nobody",
    )  # fmt: skip


def _answer(effects: tuple[ClassEffect, ...], before: Classification, origin: Origin) -> None:
    """Each class: its probability before and after, and the change of its log-odds."""
    now = max(effects, key=lambda one: one.probabilities[1]).name
    was = before.classes[before.predicted]
    st.markdown(f"**{t('what_if.class_same', name=now) if now == was else t('what_if.class_now', was=was, now=now)}**")
    views.class_table(effects, origin)


def _switchboard(record: Record, chosen: Place, changes: Changes, action: str, origin: Origin) -> None:
    """Every head over the windows, with those that are off crossed out; and switches for layers and the pooling."""
    sites = [str(site) for site in record.sites if site != POOLING]
    thumbnails = np.array(
        [[record[site].overview(head, LARGEST_SIDE) for head in range(record[site].n_heads)] for site in sites]
    )
    off = changes_.heads_off(changes, record)
    shown = {(sites.index(site), head): way_name(how) for (site, head), how in off.items() if site in sites}
    on_board = chosen.site in sites and chosen.head != MEAN
    st.markdown(f"**{t('what_if.switchboard', way=way_name(action))}**", help=t("what_if.switchboard_windows"))
    all_heads(
        thumbnails,
        None,
        row_names=[f"L{i}" for i in range(len(sites))],
        column_names=[f"H{i}" for i in range(thumbnails.shape[1])],
        selected=(sites.index(chosen.site), int(chosen.head)) if on_board else None,
        off=shown,
        on_pick=lambda picked: changes_.turn(record, [(sites[picked.layer], picked.head)], action),
        key="switchboard",
        query_axis=plain("sequences.windows_axis"),
        key_axis=plain("sequences.windows_axis"),
        file_name=origin.stem("all-heads"),
        about=origin.about(plain("what_if.all_windows"), record[sites[0]].picture(0)),
    )
    with st.container(horizontal=True, gap="xsmall"):
        for layer, site in enumerate(sites):
            turn = partial(changes_.turn, record, [(site, head) for head in range(record[site].n_heads)], action)
            st.button(t("what_if.layer_switch", layer=layer), key=f"switch-{layer}", on_click=turn)
        if POOLING in record:
            for head in range(record[POOLING].n_heads):
                turn = partial(changes_.turn, record, [(POOLING, head)], action)
                st.button(t("what_if.pooling_switch", head=head), key=f"switch-pooling-{head}", on_click=turn)


def _tracks(before: Classification, after: Classification, chosen: Place, origin: Origin) -> None:
    """What each letter received from the chosen head, or from all heads of its site on average."""
    st.markdown(f"**{t('what_if.letters', place=chosen.text)}**", help=t("what_if.letters_help"))
    for name, run in (("before", before), ("after", after)):
        attention = run.record[chosen.site]
        heads = range(attention.n_heads) if chosen.head == MEAN else [int(chosen.head)]
        values = np.mean([received(attention, head) for head in heads], axis=0)
        track = folded(values, run.spans, len(run.letters))
        tracks = Tracks(
            run.letters.text, track.widths, track.share / track.even.sum(axis=0), run.classes[run.predicted]
        )
        st.caption(t(f"what_if.map_{name}"))
        st.plotly_chart(
            sequence_tracks(tracks, dark=is_dark()), key=f"letters-{name}",
            config=plot_config(origin.stem("letters", chosen.stem, name)),
        )  # fmt: skip


def _hides(before: Classification, site: str) -> Callable[[int], list[Intervention]]:
    """What hides a window from everybody, the decision included."""
    sites = [one for one in before.record.sites if len(before.record[one].keys) == len(before.record[site].keys)]
    return lambda key: [Intervention(str(one), "knock_out", keys=(key,)) for one in sites]
