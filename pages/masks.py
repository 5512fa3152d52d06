"""Masks: who may see whom, in every convention, and what happens when a mask is wrong."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.masks import controls as masks
from ui.lessons.masks.conventions import conventions_panel
from ui.lessons.masks.leaks import leak_panel
from ui.lessons.masks.panels import break_panel, build_panel, scores_panel
from ui.shared import controls
from ui.texts import t

shell.heading(t("masks.title"), t("masks.intro"))
screen = masks.screen()
try:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        shared.try_this("masks", masks.TRY, masks.DEFAULTS)
        example = masks.example() if screen != "test" else None
    if screen == "test":
        leak_panel()
    elif example is not None:
        panels = {
            "build": build_panel,
            "scores": scores_panel,
            "conventions": conventions_panel,
            "break": break_panel,
        }
        panels[screen](example)
except HeedmapError as error:
    controls.explain(error)
