"""Masks: who may see whom, in every convention, and what happens when a mask is wrong."""

import streamlit as st

from ui import shell
from ui.lessons import shared
from ui.lessons.masks import ALONE, OF_A_BATCH, TRY, example
from ui.shared.address import named
from ui.shared.part import part
from ui.texts import t

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
