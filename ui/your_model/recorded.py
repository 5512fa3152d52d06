"""A record: a file that was brought, or a run of the user's own model, live; its views, and others beside it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap import Record
from heedmap.attention.interventions.value import to_text
from heedmap.attention.measures import some_heads
from heedmap.errors import RecordError
from heedmap.messages import Message
from heedmap.plots.picture import UNSURE, Picture, Quantity
from heedmap.runs.any_model import MAX_POSITIONS, ModelRun
from heedmap.runs.what_if import map_difference
from ui.shared import address, changes, controls, files, record_views
from ui.shared.files import Provenance, head_prefix
from ui.store import live, store
from ui.texts import as_text, plain, said, t
from ui.your_model import attention as heads
from ui.your_model import bring

OTHER = "other"
"""The query parameter of the records that are seen beside the chosen one."""

A_ROW, USUAL, MOST_BESIDE = 2, 3, 8
"""So many maps stand side by side; so many records beside the chosen one, at first and at most."""


def record_panel(name: str) -> None:
    """A record file of the session.

    Raises:
        CheckpointError: it is here no more.
    """
    shown = store.record(name)
    _panels(shown, store.record_revision(name), name)


def live_panel() -> None:
    """Type, run, look, switch heads off.

    Raises:
        InputError: the user's code fails, with file and line.
        RecordError: no attention was seen.
    """
    text = heads.text_form(t("your_model.text"), plain("your_model.sample"))
    with st.spinner(t("store.running")):
        found = live.run(text)
    _panels(found.run, live.key(text), live.NAME, {"off": lambda: _off(text, found)})
    for note in found.notes:
        st.info(controls.sentence(note), icon=":material/info:")


def _off(text: str, before: live.LiveRun) -> None:
    """The switchboard, and the map of a head before and after; what the module gives moves so far."""
    record = before.run.record
    if heads.is_wide(record):
        st.info(t("your_model.too_long", most=MAX_POSITIONS), icon=":material/info:")
        return
    force = changes.in_force(changes.asked(), lambda some: live.run(text, to_text(some)))
    after = live.run(text, to_text(force.changes))
    choice = controls.selection(record, controls.surest(record))
    origin = Provenance(after.run.checkpoint, text, after.run.record.interventions)
    board, effects = st.columns([2, 3], gap="large")
    with board:
        changes.switchboard(after.run.record, choice, force.changes, "zero", origin)
    with effects:
        changes.chips(force)
        if force.changes:
            _moved(before, after)
        files.record_button(after.run)
    changes.map_panel(
        record, after.run.record, choice.site, choice.head, changes.from_everybody(record, choice.site),
        owner=(live.NAME, text), origin=origin, hiding="token_for_nobody",
    )  # fmt: skip


def _moved(before: live.LiveRun, after: live.LiveRun) -> None:
    """How far the output moved."""
    was, now = before.output, after.output
    if was is None or now is None or was.shape != now.shape:
        st.caption(t("your_model.other_output"))
    elif bool((was == now).all()):
        st.caption(t("your_model.not_moved"))
    else:
        share, most = float((now - was).norm() / was.norm()), float((now - was).abs().max())
        st.markdown(t("your_model.moved", share=share, most=most))


def _panels(
    shown: ModelRun, key: Hashable, name: str, more: Mapping[str, Callable[[], None]] = MappingProxyType({})
) -> None:
    """The views of a run, `more` that its page has, and records beside it; `key` names it, as caches do."""
    record = shown.record
    if not record.sites:
        st.info(t("your_model.empty"), icon=":material/info:")
        return
    about = {"sites": len(record.sites), "heads": sum(one.n_heads for one in record.values())}
    st.caption(t("your_model.about", model=shown.checkpoint, **about))
    if shown.input and not more:
        st.text(said(shown.input))
    if record.interventions:
        done = plain("files.about_separator").join(said(one.message) for one in record.interventions)
        st.warning(t("your_model.changed", changes=done), icon=":material/alt_route:")
    for note in record.notes:
        if isinstance(note, Message) and note.code in UNSURE:
            st.warning(controls.sentence(note), icon=":material/warning:")

    def views() -> None:
        heads.maps_panel(shown, (key,))
        st.caption(controls.surest_note(record, heads.is_wide(record)))

    panels: dict[str, Callable[[], None]] = {
        "attention": views,
        **more,
        "beside": lambda: _beside(name, shown, [other for other in store.records() if other != name]),
    }
    panels[address.named("your_model.screen", list(panels), key=bring.SHOW, bare=True)]()
    record_views.record_notes(record)


def _beside(name: str, shown: ModelRun, others: Sequence[str]) -> None:
    """The same head in several records, and how each differs from the chosen one where both read the same tokens."""
    if not others:
        st.info(t("your_model.no_other"), icon=":material/info:")
        return
    beside = address.several(t("your_model.other"), others, key=OTHER, default=others[:USUAL], most=MOST_BESIDE)
    runs = {name: shown} | {other: store.record(other) for other in beside}
    drawn = {one: run for one, run in runs.items() if not heads.is_wide(run.record)}
    if len(drawn) < len(runs):
        st.info(t("your_model.too_long", most=MAX_POSITIONS), icon=":material/info:")
    if name not in drawn:
        return
    choice = controls.selection(shown.record, _most_different(shown.record, [run.record for run in drawn.values()]))
    pictures: dict[str, Picture] = {}
    for place, (one, run) in zip(_places(len(drawn)), drawn.items(), strict=True):
        with place:
            st.markdown(f"**{as_text(one)}**")
            try:
                pictures[one] = run.record[choice.site].picture(choice.head, choice.words, choice.special)
            except RecordError:
                st.info(t("your_model.no_such_site", name=one, site=choice.site, head=choice.head))
                continue
            _drawn(pictures[one], one, run)
    differences = dict[str, tuple[str, str, Picture | None]]()
    for one in [other for other in pictures if other != name]:
        before, after = sorted((name, one), key=lambda run: bool(runs[run].record.interventions))
        was, now = runs[before].record, runs[after].record
        same = all(getattr(was[choice.site], side) == getattr(now[choice.site], side) for side in ("queries", "keys"))
        differences[one] = before, after, map_difference(was, now, choice.site, choice.head) if same else None
    bounds = [np.abs(one.values[one.visible]).max(initial=0.0) for *_, one in differences.values() if one is not None]
    for place, (one, (before, after, picture)) in zip(_places(len(differences)), differences.items(), strict=True):
        if picture is None:
            place.info(t("your_model.other_axes", after=after, before=before), icon=":material/info:")
            continue
        with place:
            st.markdown(f"**{t('your_model.difference', after=after, before=before)}**")
            _drawn(picture, f"difference-{one}", runs[after], float(max(bounds)) or None)
    if differences:
        st.caption(t("your_model.most_different"))


def _places(count: int) -> list[DeltaGenerator]:
    return [place for _ in range(0, count, A_ROW) for place in st.columns(min(A_ROW, count))][:count]


def _most_different(one: Record, others: Sequence[Record]) -> tuple[int, int]:
    """Layer and head of the first kind that differ most at one cell; the first ones where that is not known."""
    sites = next(iter(controls.kinds(one).values()))
    found = (0.0, 0, 0)
    for layer, some in some_heads([one[site] for site in sites], share=len(others) + 1):
        mine = one[sites[layer]]
        for theirs in (other.maps[mine.site] for other in others if mine.site in other.maps):
            if (mine.n_heads, mine.shape) == (theirs.n_heads, theirs.shape):
                distance = np.abs(mine.some_weights(some) - theirs.some_weights(some)).max(axis=(1, 2))
                if distance.max() > found[0]:
                    found = float(distance.max()), layer, some[int(distance.argmax())]
    return found[1:]


def _drawn(picture: Picture, key: str, run: ModelRun, end: float | None = None) -> None:
    origin = Provenance(run.checkpoint, run.input, run.record.interventions)
    stem = origin.stem(*head_prefix(picture), *(["difference"] if picture.quantity is Quantity.DIFFERENCE else []))
    record_views.matrix(picture, key=f"beside-{key}", stem=stem, facts=origin.facts(), end=end)
