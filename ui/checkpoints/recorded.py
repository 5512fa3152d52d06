"""A record that was brought: all views of it, and others beside it."""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import Record
from transformer.errors import RecordError
from transformer.messages import Message
from transformer.plots.picture import UNSURE, Picture
from transformer.plots.quantity import Quantity
from transformer.runs.any_model import MAX_POSITIONS, ModelRun
from transformer.runs.what_if import map_difference
from ui.checkpoints import bring, heads, long
from ui.markdown import as_text
from ui.shared import address, controls, record_views
from ui.shared.files import Origin, head_stem
from ui.store import records
from ui.texts import plain, said, t

OTHER = "other"
"""The query parameter of the records that are seen beside the chosen one."""

A_ROW, USUAL, MOST_BESIDE = 2, 3, 8
"""So many maps stand side by side; so many records beside the chosen one, at first and at most."""


def record_panel(name: str) -> None:
    """A record file of the session.

    Raises:
        CheckpointError: it is here no more.
    """
    shown = records.run(name)
    panels_of_run(shown, records.revision(name), name)


def panels_of_run(
    shown: ModelRun,
    key: Hashable,
    name: str,
    more: Mapping[str, Callable[[], None]] | None = None,
) -> None:
    """The views of a run, `more` that its page has, and records beside it; `key` names it, as caches do."""
    record = shown.record
    if not record.sites:
        st.info(t("your_model.empty"), icon=":material/info:")
        return
    about = {"sites": len(record.sites), "heads": sum(one.n_heads for one in record.values())}
    st.caption(t("your_model.about", model=shown.checkpoint, **about))
    if shown.input and more is None:
        st.text(shown.input)
    if record.interventions:
        done = plain("files.about_separator").join(said(one.message) for one in record.interventions)
        st.warning(t("your_model.changed", changes=done), icon=":material/alt_route:")
    for note in record.notes:
        if isinstance(note, Message) and note.code in UNSURE:
            st.warning(controls.sentence(note), icon=":material/warning:")
    panels: dict[str, Callable[[], None]] = {
        "attention": lambda: _views(shown, key),
        **(more or {}),
        "beside": lambda: _beside(name, shown, [other for other in records.names() if other != name]),
    }
    panels[bring.screen(list(panels))]()
    record_views.record_notes(record)


def _views(shown: ModelRun, key: Hashable) -> None:
    if long.is_wide(shown.record):
        long.views(shown, (key,))
    else:
        heads.heads_panel(shown, shown, key)
        st.caption(t("your_model.first_head"))


def _beside(name: str, shown: ModelRun, others: Sequence[str]) -> None:
    """The same head in several records, and how each differs from the chosen one where both read the same tokens."""
    if not others:
        st.info(t("your_model.no_other"), icon=":material/info:")
        return
    beside = address.several(t("your_model.other"), others, key=OTHER, default=others[:USUAL], most=MOST_BESIDE)
    runs = {name: shown} | {other: records.run(other) for other in beside}
    drawn = {one: run for one, run in runs.items() if not long.is_wide(run.record)}
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
    apart = dict[str, tuple[str, str, Picture | None]]()
    for one in [other for other in pictures if other != name]:
        before, after = sorted((name, one), key=lambda run: bool(runs[run].record.interventions))
        was, now = runs[before].record, runs[after].record
        same = all(getattr(was[choice.site], side) == getattr(now[choice.site], side) for side in ("queries", "keys"))
        apart[one] = before, after, map_difference(was, now, choice.site, choice.head) if same else None
    ends = [np.abs(one.values[one.visible]).max(initial=0.0) for *_, one in apart.values() if one is not None]
    for place, (one, (before, after, picture)) in zip(_places(len(apart)), apart.items(), strict=True):
        if picture is None:
            place.info(t("your_model.other_axes", after=after, before=before), icon=":material/info:")
            continue
        with place:
            st.markdown(f"**{t('your_model.difference', after=after, before=before)}**")
            _drawn(picture, f"difference-{one}", runs[after], float(max(ends)) or None)
    if apart:
        st.caption(t("your_model.most_different"))


def _places(count: int) -> list[DeltaGenerator]:
    """Places for so many maps, at most `A_ROW` side by side."""
    return [place for _ in range(0, count, A_ROW) for place in st.columns(min(A_ROW, count))][:count]


def _most_different(one: Record, others: Sequence[Record]) -> tuple[int, int]:
    """Layer and head of the first kind that differ most at one cell; the first ones where that is not known."""
    sites = next(iter(controls.kinds(one).values()))
    found = (0.0, 0, 0)
    for layer, site in enumerate(sites):
        mine = one[site]
        for theirs in (other.maps[site] for other in others if site in other.maps):
            if (mine.n_heads, mine.shape) == (theirs.n_heads, theirs.shape):
                apart = np.abs(mine.all_weights() - theirs.all_weights()).max(axis=(1, 2))
                if apart.max() > found[0]:
                    found = float(apart.max()), layer, int(apart.argmax())
    return found[1:]


def _drawn(picture: Picture, key: str, run: ModelRun, end: float | None = None) -> None:
    origin = Origin(run.checkpoint, run.input, run.record.interventions)
    stem = origin.stem(*head_stem(picture), *(["difference"] if picture.quantity is Quantity.DIFFERENCE else []))
    record_views.matrix(picture, key=f"beside-{key}", stem=stem, facts=origin.facts(), end=end)
