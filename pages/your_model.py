"""Your model: a record file, your own code live, or weights alone; nothing that is brought is executed."""

from collections.abc import Callable

import streamlit as st

from heedmap.errors import HeedmapError
from ui import shell
from ui.shared import address, controls
from ui.store import store
from ui.texts import t
from ui.your_model import attention, bring, inspection, questions, recorded

shell.heading(t("your_model.title"), t("your_model.intro"))
with st.container(key="bring-area"):
    brought, listed = st.columns([3, 2], gap="medium")
with shell.explained(), brought:
    bring.bring_panel()
with listed:
    name = bring.choice()
if bring.is_recorded(name):
    with shell.explained():
        recorded.live_panel() if name == bring.LIVE else recorded.record_panel(name)
    address.stop()
try:
    found, wrong = bring.recognition(name)
    bundle = store.bundle(name)
    if wrong is not None:
        controls.explain(wrong)
    if found is None or bundle is None:
        controls.warn_of_guesses(name)
    else:
        bring.report_panel(found)
        questions.questions_panel(name, bundle, found, is_wrong=wrong is not None)
except HeedmapError as error:
    controls.explain(error)
    if store.answers_for(name):  # a way out where answers do not suit a file
        st.button(t("your_model.forget"), on_click=store.set_answers, args=(name, {}), key="forget-all-answers")
    address.stop()
if wrong is not None:  # the questions stay, and what they answer is not run
    address.stop()

is_ready = found is None or found.is_ready
if is_ready:
    with shell.explained():
        bring.identity_panel(store.checkpoint(name))
panels: dict[str, Callable[[], None]] = {
    "attention": lambda: attention.attention_panel(name, store.checkpoint(name)),
    "check": lambda: inspection.check_panel(name, store.checkpoint(name)),
    "tensors": lambda: inspection.tensors_panel(name),
}
shown = list(panels) if is_ready else ["tensors"]
panel = address.named("your_model.screen", shown, key=bring.SHOW, bare=True)
with shell.explained():
    panels[panel]()
