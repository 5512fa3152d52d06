"""Learning: a small Transformer that is trained in front of the reader, and what its training rests on."""

import streamlit as st

from ui import shell
from ui.lessons import shared
from ui.lessons.learning import SCREENS
from ui.lessons.watched_training import TRY
from ui.texts import t

shell.heading(t("learning.title"), t("learning.intro"))
bar = st.container(key="bar", horizontal=True, vertical_alignment="bottom", gap="small")
with bar:
    screen = shared.listed("learning.screen", tuple(SCREENS), key="screen", width=190, bare=True)
    if screen == "watch":
        shared.try_this("learning", TRY)
with shell.explained():
    SCREENS[screen](bar)
