"""Positions: what tells attention the order of words."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.positions import controls as positions
from ui.lessons.positions.screens import OF_A_MODEL, SIZED, UNSIZED
from ui.shared import controls
from ui.shared.part import part
from ui.texts import t

shell.heading(t("positions.title"), t("positions.intro"))
screen = positions.screen()
bar = st.container(key="bar", horizontal=True, vertical_alignment="bottom", gap="small")
with bar:
    shared.try_this("positions", positions.TRY, positions.DEFAULTS)
    sizes = positions.sizes() if screen in SIZED else None


def looked_at() -> None:
    """The open screen, with its own controls in the bar."""
    try:
        if sizes is not None:
            SIZED[screen](*sizes, bar)
        else:
            UNSIZED[screen](bar)
    except HeedmapError as error:
        controls.explain(error)


if screen in OF_A_MODEL:
    looked_at()
else:
    part(looked_at)
