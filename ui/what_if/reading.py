"""The page for models that read one text: classes, tokens or last states, and maps, before and after a change."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
import streamlit as st

from transformer import Checkpoint, ContinueOptions, Intervention
from transformer.attention.interventions.text import to_text
from transformer.attention.measures import strongest_head
from transformer.checkpoint.foreign.samples import sample_ids
from transformer.errors import CheckpointError, HeedmapError
from transformer.runs.any_model import ModelRun
from transformer.runs.classes import classes_of, given_names, numbers_of
from transformer.runs.filling import mask_of
from transformer.runs.translate import MAX_CHARACTERS
from transformer.runs.what_if import asked_about, ends_with, logit_effects, scores, state_effects, step_at, step_effects
from transformer.text.vocabulary import IdTokenizer
from ui.shared import address, controls, downloads, elsewhere, record_views, subject, switchboard
from ui.shared import changed_maps as maps
from ui.shared import changes as changes_
from ui.shared.controls import Selection
from ui.shared.files import Origin, frame_csv
from ui.shared.part import part
from ui.shared.writing import STEP
from ui.store import store
from ui.texts import in_this_language, plain, t
from ui.what_if import runs, views, writing
from ui.what_if.off import off_choice

FOLLOWING = "following"
"""The query parameter of the next token that is followed: its id."""

NEXT = 10
"""How many of the likeliest next tokens can be chosen."""

SAMPLE = 8
"""Ids that are read at first, where a checkpoint brings no example."""


class Shown(NamedTuple):
    """Both runs of one text (and of what a decoder alone wrote after it), and where their files say they come from."""

    checkpoint: Checkpoint
    before: ModelRun
    after: ModelRun
    origin: Origin
    goes_on: bool = False


def show(name: str) -> None:
    """Everything below the checkpoint's choice."""
    text = ""
    try:
        checkpoint = store.checkpoint(name)
        text = _typed(name, checkpoint)
        options = writing.asked(checkpoint, text)
        changes_.open_with(checkpoint, text)
        if checkpoint.means is None:
            changes_.without_means()
        before = _read(name, text, options, "")
        if not before.record.sites:
            raise CheckpointError("nothing_to_change", name=name)
    except HeedmapError as error:
        controls.explain(error)
        elsewhere.explain_long(error, name, text)
        address.stop()
    record_views.record_notes(before.record)
    part(partial(_changed, name, text, options))


def _changed(name: str, text: str, options: ContinueOptions | None) -> None:
    """What is changed, and what comes of it: looked up anew, since a part keeps nothing."""
    checkpoint, before = store.checkpoint(name), _read(name, text, options, "")
    board, answer = st.columns([2, 3], gap="large")
    with answer:
        above = st.container(key="continued")
        force = changes_.in_force(changes_.asked(), lambda some: _read(name, text, options, to_text(some)))
        changes_.chips(force)
        effects = st.container()
    with board, st.container(key="board"):
        kind_at, switches, heads = st.container(key="kind-at"), st.container(), st.container()
    changes, asked = force.changes, to_text(force.changes)
    after = _read(name, text, options, asked)
    origin = Origin(name, before.input, after.record.interventions)
    goes_on = options is not None and options.n_tokens > 0
    if options is not None and goes_on:
        done = to_text(after.record.interventions)
        with above:
            writing.texts_panel(name, text, options, done)
        with st.container():
            part(partial(writing.steps_panel, name, text, options, done), STEP)
    kind = next(iter(controls.kinds(before.record)))
    first = strongest_head(before.record, kind)
    choice = controls.selection(before.record, (first.layer, first.head), kind_at=kind_at)
    with switches, st.popover(t("what_if.switches"), icon=":material/tune:"):
        action = off_choice(checkpoint)
        switchboard.switches(after.record, choice.kind, action)
    with heads:
        switchboard.switchboard(after.record, choice, changes, action, origin)
    with effects:
        if mask_of(checkpoint):
            writing.gaps_panel(checkpoint, before, after, origin)
        _ENDS[ends_with(before)](Shown(checkpoint, before, after, origin, goes_on))
    with st.container():
        part(partial(_map, name, text, options, asked, choice, origin), *maps.KEYS)
    with st.expander(t("what_if.take_away"), icon=":material/download:"):
        downloads.downloads_panel(after, choice)


def _map(
    name: str, text: str, options: ContinueOptions | None, changes: str, choice: Selection, origin: Origin
) -> None:
    """The map of the chosen head, and what can be done to a cell of it."""
    before, after = (_read(name, text, options, done) for done in ("", changes))
    maps.map_panel(
        before.record, after.record, choice.site, choice.head, _hides(before), owner=(name, before.input),
        origin=origin, hiding="token_for_nobody",
    )  # fmt: skip


def _read(name: str, text: str, options: ContinueOptions | None, changes: str) -> ModelRun:
    """The text under changes; with what the unchanged model writes after it, where it is asked how it writes on."""
    return runs.read(name, text, changes) if options is None else runs.continued(name, text, options, changes)


def _typed(name: str, checkpoint: Checkpoint) -> str:
    """The text that is read; ids where the checkpoint has no vocabulary.

    Raises:
        CheckpointError: nothing was brought that reads a text.
    """
    reader = checkpoint.tokenizer
    if reader is None:
        raise CheckpointError("tokenizer_not_brought", name=name)
    by_id = isinstance(reader, IdTokenizer)
    sample = reader.decode(sample_ids(checkpoint.model.config, SAMPLE, len(reader)))
    address.belong_to(by_id, "text")
    label = t("checkpoints.ids", last=len(reader) - 1) if by_id else t("checkpoints.text")
    with st.form("request", border=False):
        start = checkpoint.examples[0] if checkpoint.examples else sample
        text = address.lines(label, start, key="text", height=92, longest=2 * MAX_CHARACTERS)
        st.form_submit_button(t("checkpoints.run"), type="primary", icon=":material/play_arrow:")
    subject.show(name, text)
    return text


def _classes(shown: Shown) -> None:
    """Each class of a head over the whole text: its probability before and after, and the change of its log-odds."""
    was, now = (run.outputs["logits"] for run in (shown.before, shown.after))
    st.markdown(f"**{t('what_if.read_classes')}**", help=t("what_if.read_classes_help"))
    classes = classes_of(shown.checkpoint, was)
    was, now = was / classes.temperature, now / classes.temperature
    views.class_table(logit_effects(classes.names, was, now, classes.each), shown.origin)


def _next(shown: Shown) -> None:
    """Log p of each token after those before it, and of a chosen one after the text."""
    last = scores(shown.before)[-1]
    names = _names(shown.checkpoint, len(last))
    likeliest = [str(i) for i in last.topk(min(NEXT, len(last))).indices.tolist()]
    address.belong_to((shown.origin.checkpoint, shown.origin.text), FOLLOWING)
    following = address.choice(
        t("what_if.read_following"), likeliest, key=FOLLOWING, form="list", width="stretch",
        text=lambda one: names([int(one)])[0], help=t("what_if.read_following_help"),
    )  # fmt: skip
    ids = asked_about(shown.before, "next", int(following))
    own = list(_labels(shown.before))[1:]
    texts = [*own, plain("what_if.read_after_text", token=names([int(following)])[0])]
    st.markdown(f"**{t('what_if.read_next')}**", help=t("what_if.read_next_help"))
    if shown.goes_on:
        st.caption(t("what_if.read_written"))
    _by_position(shown, ids, texts, names, own=len(own))


def _positions(shown: Shown) -> None:
    """Log p, at each position, of what the unchanged model holds likeliest there."""
    names = _names(shown.checkpoint, scores(shown.before).shape[1])
    ids = asked_about(shown.before, "positions")
    pairs = zip(_labels(shown.before), names(ids), strict=True)
    texts = [plain("what_if.donor_label", own=token, other=held) for token, held in pairs]
    st.markdown(f"**{t('what_if.read_positions')}**", help=t("what_if.read_positions_help"))
    _by_position(shown, ids, texts, names)


def _by_position(
    shown: Shown, ids: list[int], texts: list[str], names: Callable[[Sequence[int]], list[str]], own: int = 0
) -> None:
    """Bars over positions, and one of them closely; the first `own` are the text's own tokens, which have a sum."""
    was, now = scores(shown.before), scores(shown.after)
    steps = step_effects(texts, ids, was, now, names)
    if own:
        st.caption(t("what_if.read_total", total=sum(one.change for one in steps[:own])))
    place = st.container()
    origin = shown.origin
    step = views.step_choice(steps, (origin.checkpoint, origin.text, to_text(origin.changes)), "read_position")
    with place:
        views.bars(steps, step, origin)
    tops = [one[step].topk(min(views.TOP, one.shape[1])).indices.tolist() for one in (was, now)]
    before, after = (
        step_at(one[step], ids[step], names([ids[step], *top]), top) for one, top in zip((was, now), tops, strict=True)
    )
    views.step_panel(steps[step], before, after, is_next=own > 0)


def _states(shown: Shown) -> None:
    """A model without a head of its own scores nothing: how far the state of each position moved."""
    st.info(t("what_if.read_no_head"), icon=":material/info:")
    effects = state_effects(shown.before, shown.after)
    table = pd.DataFrame(
        {
            plain("what_if.read_token"): [one.text for one in effects],
            plain("what_if.read_length_before"): [one.lengths[0] for one in effects],
            plain("what_if.read_length_after"): [one.lengths[1] for one in effects],
            plain("what_if.read_moved"): [one.moved for one in effects],
        }
    )
    st.markdown(f"**{t('what_if.read_states')}**", help=t("what_if.read_states_help"))
    st.dataframe(table, hide_index=True, key="states", placeholder="-")
    about = plain("files.about_separator").join(shown.origin.facts())
    named = table.assign(**{plain("what_if.csv_about"): about})
    st.download_button(
        t("what_if.effects_csv"), in_this_language(lambda: frame_csv(named)), f"{shown.origin.stem('states')}.csv",
        "text/csv", on_click="ignore", icon=":material/download:",
    )  # fmt: skip


def _numbers(shown: Shown) -> None:
    """The numbers of a regression, before and after: no probabilities, so their differences are all there is."""
    was, now = (numbers_of(shown.checkpoint, run.outputs["scores"]) for run in (shown.before, shown.after))
    table = pd.DataFrame(
        {
            plain("what_if.number"): list(was),
            plain("what_if.number_before"): list(was.values()),
            plain("what_if.number_after"): list(now.values()),
            plain("what_if.number_change"): [now[name] - was[name] for name in was],
        }
    )
    st.markdown(f"**{t('what_if.read_numbers')}**", help=t("what_if.read_numbers_help"))
    st.dataframe(table, hide_index=True, key="numbers", placeholder="-")


_ENDS = {"next": _next, "positions": _positions, "classes": _classes, "numbers": _numbers, "states": _states}


def _names(checkpoint: Checkpoint, width: int) -> Callable[[Sequence[int]], list[str]]:
    """What a person reads for each output: classes by name, tokens where there is one for each, else numbers."""
    named = given_names(checkpoint, width)
    if named:
        return lambda ids: [named[i] for i in ids]
    reader = checkpoint.tokenizer
    known = 0 if reader is None or width < len(reader) else len(reader)
    return lambda ids: [str(i) if reader is None or i >= known else reader.labels([i])[0] for i in ids]


def _labels(run: ModelRun) -> Sequence[str]:
    return next(iter(run.record.values())).keys.labels


def _hides(before: ModelRun) -> maps.ForNobody:
    """What hides a token from every head."""
    return lambda key: [Intervention(str(site), "knock_out", keys=(key,)) for site in before.record.sites]
