"""Positions: what tells attention the order of words."""

import streamlit as st

from ui import shell
from ui.lessons import shared
from ui.lessons.positions import SCREENS, TRY
from ui.shared.address import named
from ui.shared.part import part
from ui.texts import t

shell.heading(t("positions.title"), t("positions.intro"))
screen = named("positions.screen", list(SCREENS), key="screen", bare=True)
bar = st.container(key="bar", horizontal=True, vertical_alignment="bottom", gap="small")
with bar:
    shared.try_this("positions", TRY)
if screen in {"order", "share"}:  # their checkpoint is chosen beside the page, which only the page's own run can draw
    with shell.explained():
        SCREENS[screen](bar)
else:
    part(lambda: SCREENS[screen](bar))
