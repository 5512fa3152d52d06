"""Learning: a small Transformer that is trained in front of the reader, and what its training rests on."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.learning import controls as learning
from ui.lessons.learning.screens import SCREENS
from ui.shared import controls
from ui.texts import t

shell.heading(t("learning.title"), t("learning.intro"))
bar = st.container(key="bar", horizontal=True, vertical_alignment="bottom", gap="small")
with bar:
    screen = learning.screen(tuple(SCREENS))
    if screen == "watch":
        shared.try_this("learning", learning.TRY, learning.DEFAULTS)
try:
    SCREENS[screen](bar)
except HeedmapError as error:
    controls.explain(error)
