"""Positions: what tells attention the order of words."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.positions import controls as positions
from ui.lessons.positions.screens import SIZED, UNSIZED
from ui.shared import controls
from ui.texts import t

shell.heading(t("positions.title"), t("positions.intro"))
screen = positions.screen()
try:
    bar = st.container(key="bar", horizontal=True, vertical_alignment="bottom", gap="small")
    with bar:
        shared.try_this("positions", positions.TRY, positions.DEFAULTS)
        sizes = positions.sizes() if screen in SIZED else None
    if sizes is not None:
        SIZED[screen](*sizes, bar)
    else:
        UNSIZED[screen](bar)
except HeedmapError as error:
    controls.explain(error)
