"""Masks: who may see whom, in every convention, and what happens when a mask is wrong."""

import streamlit as st

from ui import shell
from ui.lessons import shared
from ui.lessons.leaks import break_panel, leak_panel
from ui.lessons.masks import TRY, build_panel, conventions_panel, example, module_panel, scores_panel
from ui.shared.address import named
from ui.shared.part import part
from ui.texts import t

# Screens that look at the typed sentences, and those that do not.
OF_A_BATCH = {"build": build_panel, "scores": scores_panel, "break": break_panel, "conventions": conventions_panel}
ALONE = {"module": module_panel, "test": leak_panel}

shell.heading(t("masks.title"), t("masks.intro"))
screen = named("masks.screen", [*OF_A_BATCH, *ALONE], key="screen", bare=True)
bar = st.container(key="bar", horizontal=True, vertical_alignment="bottom", gap="small")
with shell.explained(), bar:
    shared.try_this("masks", TRY)
    shown = None if screen in ALONE else example()


def looked_at() -> None:
    """The open screen, with its own controls in the bar."""
    if screen in ALONE:
        ALONE[screen](bar)
    elif shown is not None:
        OF_A_BATCH[screen](shown, bar)


part(looked_at)
