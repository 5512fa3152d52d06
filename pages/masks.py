"""Masks: who may see whom, in every convention, and what happens when a mask is wrong."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.masks import controls as masks
from ui.lessons.masks.screens import ALONE, OF_A_BATCH
from ui.shared import address, controls
from ui.shared.part import part
from ui.texts import t

shell.heading(t("masks.title"), t("masks.intro"))
screen = masks.screen()
bar = st.container(key="bar", horizontal=True, vertical_alignment="bottom", gap="small")
try:
    with bar:
        shared.try_this("masks", masks.TRY, masks.DEFAULTS)
        example = masks.example() if screen not in ALONE else None
except HeedmapError as error:
    controls.explain(error)
    address.stop()


def looked_at() -> None:
    """The open screen, with its own controls in the bar."""
    if screen in ALONE:
        ALONE[screen](bar)
    elif example is not None:
        OF_A_BATCH[screen](example, bar)


part(looked_at)
