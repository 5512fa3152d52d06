"""The user's own model, live: a text in, its attention out, and heads that can be switched off."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from transformer import Intervention, Record
from transformer.attention.interventions.text import to_text
from transformer.attention.measures import strongest_head
from transformer.runs.any_model import MAX_POSITIONS
from ui.checkpoints import long
from ui.checkpoints.recorded import panels_of_run
from ui.shared import address, changed_maps, changes, controls, downloads
from ui.shared.files import Origin
from ui.shared.switchboard import switchboard
from ui.store import live
from ui.texts import plain, t

INPUT = "input"
"""The query parameter of what is read."""

LONGEST_IN_ADDRESS = 8_192


def live_panel() -> None:
    """Type, run, look, switch heads off.

    Raises:
        InputError: the user's code fails, with file and line.
        RecordError: no attention was seen.
    """
    with st.form("look", border=False), st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        text = address.line(t("your_model.text"), plain("your_model.sample"), key=INPUT)
        st.form_submit_button(t("checkpoints.run"), type="primary", icon=":material/play_arrow:")
    with st.spinner(t("store.running")):
        found = live.run(text)
    panels_of_run(found.run, live.key(text), live.NAME, {"off": lambda: _off(text, found)})
    for note in found.notes:
        st.info(controls.sentence(note), icon=":material/info:")


def _off(text: str, before: live.LiveRun) -> None:
    """The switchboard, and the map of a head before and after; what the module gives moves so far."""
    record = before.run.record
    if long.is_wide(record):
        st.info(t("your_model.too_long", most=MAX_POSITIONS), icon=":material/info:")
        return
    force = changes.in_force(changes.asked(), lambda some: live.run(text, to_text(some)))
    after = live.run(text, to_text(force.changes))
    strongest = strongest_head(record, next(iter(controls.kinds(record))))
    choice = controls.selection(record, (strongest.layer, strongest.head))
    origin = Origin(after.run.checkpoint, text, after.run.record.interventions)
    board, effects = st.columns([2, 3], gap="large")
    with board:
        switchboard(after.run.record, choice, force.changes, "zero", origin)
    with effects:
        changes.chips(force)
        if force.changes:
            _moved(before, after)
        downloads.record_button(after.run)
    changed_maps.map_panel(
        record, after.run.record, choice.site, choice.head, partial(_for_nobody, record, choice.site),
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


def _for_nobody(record: Record, site: str, key: int) -> Sequence[Intervention]:
    """What hides a token from every head that reads the same tokens."""
    same = [other for other, one in record.items() if one.keys == record[site].keys]
    return [Intervention(str(other), "knock_out", keys=(key,)) for other in same]
