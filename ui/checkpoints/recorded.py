"""A record that was brought: all views of it, and another one beside it."""

from collections.abc import Callable, Hashable, Mapping

import numpy as np
import streamlit as st

from transformer import Record
from transformer.errors import RecordError
from transformer.messages import Message
from transformer.plots.picture import UNSURE, Picture
from transformer.runs.any_model import MAX_POSITIONS, AnyRun
from transformer.runs.what_if import map_difference
from ui.checkpoints import bring, heads, long
from ui.markdown import as_text
from ui.shared import address, controls, record_views
from ui.shared.files import Origin, head_stem
from ui.store import records
from ui.texts import plain, said, t

OTHER = "other"
"""The query parameter of the record that is seen beside the chosen one."""


def record_panel(name: str) -> None:
    """A record file of the session.

    Raises:
        CheckpointError: it is here no more.
    """
    shown = records.run(name)
    others = {other: records.run(other) for other in records.names() if other != name}
    panels_of_run(shown, records.revision(name), name, others)


def panels_of_run(
    shown: AnyRun,
    key: Hashable,
    name: str,
    others: Mapping[str, AnyRun],
    more: Mapping[str, Callable[[], None]] | None = None,
) -> None:
    """The views of a run, `more` that its page has, and the runs beside it; `key` names it, as caches do."""
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
        "beside": lambda: _beside(name, shown, others),
    }
    panels[bring.screen(list(panels))]()
    record_views.record_notes(record)


def _views(shown: AnyRun, key: Hashable) -> None:
    if long.is_wide(shown.record):
        long.views(shown, (key,))
    else:
        heads.heads_panel(shown, shown, key)
        st.caption(t("your_model.first_head"))


def _beside(name: str, shown: AnyRun, others: Mapping[str, AnyRun]) -> None:
    """The same head in two records, and the difference where both read the same tokens."""
    if not others:
        st.info(t("your_model.no_other"), icon=":material/info:")
        return
    other = address.choice(t("your_model.other"), list(others), key=OTHER, form="list", text=str, width="stretch")
    if long.is_wide(shown.record) or long.is_wide(others[other].record):
        st.info(t("your_model.too_long", most=MAX_POSITIONS), icon=":material/info:")
        return
    choice = controls.selection(shown.record, _most_different(shown.record, others[other].record))
    pictures: dict[str, Picture] = {}
    for place, one, run in zip(st.columns(2), (name, other), (shown, others[other]), strict=True):
        with place:
            st.markdown(f"**{as_text(one)}**")
            try:
                pictures[one] = run.record[choice.site].picture(choice.head, choice.words, choice.special)
            except RecordError:
                st.info(t("your_model.no_such_site", name=one, site=choice.site, head=choice.head))
                continue
            _drawn(pictures[one], one, run)
    if len(pictures) < 2:
        return
    runs = {name: shown, other: others[other]}
    before, after = sorted(runs, key=lambda one: bool(runs[one].record.interventions))
    sides = [(runs[one].record[choice.site].queries, runs[one].record[choice.site].keys) for one in runs]
    if sides[0] != sides[1]:
        st.info(t("your_model.other_axes"), icon=":material/info:")
        return
    st.markdown(f"**{t('your_model.difference', after=after, before=before)}**")
    picture = map_difference(runs[before].record, runs[after].record, choice.site, choice.head)
    _drawn(picture, "difference", runs[after])
    st.caption(t("your_model.most_different"))


def _most_different(one: Record, other: Record) -> tuple[int, int]:
    """Layer and head of the first kind that differ most at one cell; the first ones where that is not known."""
    sites = next(iter(controls.kinds(one).values()))
    found = (0.0, 0, 0)
    for layer, site in enumerate(sites):
        mine, theirs = one[site], other.maps.get(site)
        if theirs is not None and (mine.n_heads, mine.shape) == (theirs.n_heads, theirs.shape):
            apart = np.abs(mine.all_weights() - theirs.all_weights()).max(axis=(1, 2))
            if apart.max() > found[0]:
                found = float(apart.max()), layer, int(apart.argmax())
    return found[1:]


def _drawn(picture: Picture, key: str, run: AnyRun) -> None:
    origin = Origin(run.checkpoint, run.input, run.record.interventions)
    stem = origin.stem(*head_stem(picture), *(["difference"] if key == "difference" else []))
    record_views.matrix(picture, key=f"beside-{key}", stem=stem, facts=origin.facts())
