"""Positions: what tells attention the order of words."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.positions import panels
from ui.shared import controls
from ui.texts import t

shell.heading(t("positions.title"), t("positions.intro"))
screen = panels.screen()
try:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        shared.try_this("positions", panels.TRY, panels.DEFAULTS)
        sizes = panels.sizes() if screen in panels.SIZED else None
    if sizes is not None:
        panels.SIZED[screen](*sizes)
    else:
        panels.UNSIZED[screen]()
except HeedmapError as error:
    controls.explain(error)
