"""Checkpoints: bring your own, see what it is, what it attends to and what lies inside; nothing in it is executed."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import AttentionAtlasError
from ui import cached, checkpoint_attention, checkpoint_inspection, checkpoints, controls, frame, shelves
from ui.checkpoint_questions import questions_panel
from ui.texts import t

frame.heading(t("checkpoints.title"), t("checkpoints.intro"))
try:
    checkpoints.bring_panel()
except AttentionAtlasError as error:
    controls.explain(error)
    st.stop()
chosen = checkpoints.choice()
if chosen is None:
    st.stop()
name: str = chosen
try:
    found = checkpoints.recognition(name)
    if found is not None:
        checkpoints.report_panel(found.report)
        bundle = shelves.bundle_of(name)
        if bundle is not None:
            questions_panel(name, bundle, found)
except AttentionAtlasError as error:
    controls.explain(error)
    checkpoints.forget_answers(name)
    st.stop()

panels: dict[str, Callable[[], None]] = {
    "attention": lambda: checkpoint_attention.attention_panel(name, cached.checkpoint(name)),
    "tensors": lambda: checkpoint_inspection.tensors_panel(name),
    "circuits": lambda: checkpoint_inspection.circuits_panel(name, cached.checkpoint(name)),
    "compare": lambda: checkpoint_inspection.compare_panel(name, checkpoints.others(name)),
}
if found is not None and not found.report.fits:
    panels = {panel: panels[panel] for panel in ("tensors", "compare")}
panel = checkpoints.screen(list(panels))
try:
    panels[panel]()
except AttentionAtlasError as error:
    controls.explain(error)
