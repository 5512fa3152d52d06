"""Your model: a record file, your own code live, or weights alone; nothing that is brought is executed."""

from collections.abc import Callable

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.checkpoints import attention, bring, identity, inspection, live, proof, recorded, verdict
from ui.checkpoints.questions import questions_panel
from ui.shared import address, controls
from ui.store import store
from ui.texts import t

shell.heading(t("your_model.title"), t("your_model.intro"))
with st.container(key="bring-area"):
    brought, listed = st.columns([3, 2], gap="medium")
try:
    with brought:
        bring.bring_panel()
except HeedmapError as error:
    controls.explain(error)
    address.stop()
with listed:
    chosen = bring.choice()
if chosen is None:
    address.stop()
name: str = chosen
if bring.is_recorded(name):
    try:
        live.live_panel() if name == bring.LIVE else recorded.record_panel(name)
    except HeedmapError as error:
        controls.explain(error)
    address.stop()
try:
    found, wrong = bring.recognition(name)
    if found is None:
        controls.warn_of_guesses(name)
    if wrong is not None:
        controls.explain(wrong)
    if found is not None:
        verdict.report_panel(found.report)
        bundle = store.bundle(name)
        if bundle is not None:
            questions_panel(name, bundle, found, is_wrong=wrong is not None)
except HeedmapError as error:
    controls.explain(error)
    bring.forget_answers(name)
    address.stop()
if wrong is not None:  # the questions stay, and what they answer is not run
    address.stop()

is_ready = found is None or found.report.is_ready
if is_ready:
    try:
        identity.identity_panel(store.checkpoint(name))
    except HeedmapError as error:
        controls.explain(error)
        address.stop()
panels: dict[str, Callable[[], None]] = {
    "attention": lambda: attention.attention_panel(name, store.checkpoint(name)),
    "check": lambda: proof.check_panel(name, store.checkpoint(name) if is_ready else None),
    "tensors": lambda: inspection.tensors_panel(name),
}
if found is not None and not is_ready:
    asks = ("check",) if found.report.fits and found.report.questions else ()  # what is expected may find the answers
    panels = {panel: panels[panel] for panel in ("tensors", *asks)}
panel = bring.screen(list(panels))
try:
    panels[panel]()
except HeedmapError as error:
    controls.explain(error)
