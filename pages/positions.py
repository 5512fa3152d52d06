"""Positions: what tells attention the order of words."""

import streamlit as st

from transformer.errors import AttentionAtlasError
from ui import controls, frame, lessons, positions
from ui.texts import t

frame.heading(t("positions.title"), t("positions.intro"))
screen = positions.screen()
try:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        lessons.try_this("positions", positions.TRY, positions.DEFAULTS)
        sizes = positions.sizes() if screen in positions.SIZED else None
    if sizes is not None:
        positions.SIZED[screen](*sizes)
    else:
        positions.UNSIZED[screen]()
except AttentionAtlasError as error:
    controls.explain(error)
