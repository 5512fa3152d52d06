"""The page for classifiers of sequences: probabilities, letters and maps before and after a change."""

from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st

from transformer import Intervention, Record
from transformer.attention.interventions.text import to_text
from transformer.checkpoint.checkpoint import ChangedExample
from transformer.errors import HeedmapError
from transformer.plots.canvas.about import About
from transformer.runs.sequences.classify import Classification, classifier, read
from transformer.runs.what_if import ClassEffect, class_effects
from transformer.sequences.fasta import parse_fasta
from transformer.sequences.folding import LetterTrack, folded
from transformer.sites import Site
from ui.components.all_heads.component import LARGEST_SIDE
from ui.shared import address, controls, elsewhere
from ui.shared import changed_maps as maps
from ui.shared import changes as changes_
from ui.shared.changes import Changes
from ui.shared.files import Origin
from ui.shared.letter_tracks import letter_tracks
from ui.shared.part import part
from ui.shared.sequence_controls import MEAN, POOLING, SEQUENCE, HeadChoice, place, typed_sequence
from ui.shared.switchboard import board, every_head, turned
from ui.store import store
from ui.texts import plain, t
from ui.what_if import runs, views
from ui.what_if.off import off_choice
from ui.what_if.try_this import try_this
from ui.what_if.views import Places

MOST_WINDOWS = 600
"""Windows of a sequence that is looked at here: its maps are computed whole."""


def show(name: str) -> None:
    """Everything below the checkpoint's choice."""
    sequence = ""
    try:
        checkpoint = store.checkpoint(name)
        model, _ = classifier(checkpoint)
        longest = MOST_WINDOWS // len(model.config.widths)
        typed = typed_sequence(checkpoint, longest, changes_.opening(checkpoint))
        sequence = typed.sequence
        read(checkpoint, sequence, longest)
        runs.classified(name, sequence, "")
        changes_.open_with(checkpoint, address.parameter(SEQUENCE) or changes_.opening(checkpoint) or "")
        if checkpoint.means is None:
            changes_.without_means()
    except HeedmapError as error:
        controls.explain(error)
        elsewhere.explain_long(error, name, sequence)
        address.stop()
    board, answer = st.columns([2, 3], gap="large")
    with answer:
        try_this(checkpoint, SEQUENCE, partial(_tried, name))
        verdict, effects = st.container(key="sentences"), st.container()
    part(partial(_changed, name, sequence, typed.id, Places(board, verdict, effects)))


def _tried(name: str, example: ChangedExample) -> None:
    """What a change worth trying does to the class."""
    letters = "".join(record.sequence for record in parse_fasta(example.text.split("\n")))
    was, now = (runs.classified(name, letters, change) for change in ("", example.change))
    views.two_answers(*(f"{run.classes[run.predicted]} {run.probabilities[run.predicted]:.2f}" for run in (was, now)))


def _changed(name: str, sequence: str, record_id: str, places: Places) -> None:
    """What is changed, and what comes of it: looked up anew, since a part keeps nothing."""
    before = runs.classified(name, sequence, "")
    with places.sentence:
        answer = st.container()
        force = changes_.in_force(changes_.asked(), lambda some: runs.classified(name, sequence, to_text(some)))
        changes_.chips(force)
    changes, done = force.changes, to_text(force.changes)
    after = runs.classified(name, sequence, done)
    origin = Origin(name, record_id or sequence[:12], after.record.interventions)
    with answer:
        _answer(class_effects(before.classes, before.probabilities, after.probabilities), before, origin)
    with places.board, st.container(key="board"):
        switches, heads = st.container(), st.container()
    chosen, map_ = st.container(), st.container()
    with chosen:
        place_ = place(before)
    with switches, st.popover(t("what_if.switches"), icon=":material/tune:"):
        action = off_choice(store.checkpoint(name))
        _switches(after.record, action)
    with heads:
        _switchboard(after.record, place_, changes, action, origin)
    with places.effects:
        _tracks(before, after, place_, origin)
    with map_:
        part(partial(_map, name, sequence, done, place_, origin), *maps.KEYS)


def _map(name: str, sequence: str, done: str, chosen: HeadChoice, origin: Origin) -> None:
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


def _switchboard(record: Record, chosen: HeadChoice, changes: Changes, action: str, origin: Origin) -> None:
    """Every head over the windows, with those that are off crossed out."""
    sites = _layers(record)
    thumbnails = [[record[site].overview(head, LARGEST_SIDE) for head in range(record[site].n_heads)] for site in sites]
    on_board = chosen.site in sites and chosen.head != MEAN
    board(
        record, sites, np.array(thumbnails), changes, action,
        selected=(sites.index(chosen.site), int(chosen.head)) if on_board else None,
        file_name=origin.stem("all-heads"),
        about=origin.about(plain("what_if.all_windows"), record[sites[0]].picture(0)),
        axis=plain("sequences.windows_axis"),
    )  # fmt: skip


def _switches(record: Record, action: str) -> None:
    """A button for each layer, and one for each head of the pooling; and what the thumbnails are."""
    st.caption(t("what_if.switchboard_windows"))
    with st.container(horizontal=True, gap="xsmall"):
        for layer, site in enumerate(_layers(record)):
            turn = turned(record, every_head(record, [site]), action)
            st.button(t("what_if.layer_switch", layer=layer), key=f"switch-{layer}", on_click=turn)
        for pooling, head in every_head(record, [POOLING] if POOLING in record else []):
            turn = turned(record, [(pooling, head)], action)
            st.button(t("what_if.pooling_switch", head=head), key=f"switch-pooling-{head}", on_click=turn)


def _layers(record: Record) -> list[Site]:
    return [site for site in record.sites if site != POOLING]


def _tracks(before: Classification, after: Classification, chosen: HeadChoice, origin: Origin) -> None:
    """What each letter received from the chosen head, or from all heads of its site on average."""
    st.markdown(f"**{t('what_if.letters', place=chosen.text)}**", help=t("what_if.letters_help"))
    tracks = {"before": _letters(before, chosen), "after": _letters(after, chosen)}
    reach = max(float((one.share.sum(axis=0) / one.even.sum(axis=0)).max()) for one in tracks.values())
    for name, track in tracks.items():
        st.caption(t(f"what_if.map_{name}"))
        letter_tracks(
            before.letters.text, track, key=f"letters-{name}", file_name=origin.stem("letters", chosen.stem, name),
            about=About(plain(f"what_if.map_{name}"), origin.facts(chosen.text)), reach=reach,
        )  # fmt: skip


def _letters(run: Classification, chosen: HeadChoice) -> LetterTrack:
    attention = run.record[chosen.site]
    heads = range(attention.n_heads) if chosen.head == MEAN else [int(chosen.head)]
    return folded(np.mean([attention.received(head) for head in heads], axis=0), run.spans, len(run.letters))


def _hides(before: Classification, site: str) -> Callable[[int], list[Intervention]]:
    """What hides a window from everybody, the decision included."""
    sites = [one for one in before.record.sites if len(before.record[one].keys) == len(before.record[site].keys)]
    return lambda key: [Intervention(str(one), "knock_out", keys=(key,)) for one in sites]
