"""Inside a layer: what stands around attention, step by step; pick a cell to see its equation."""

from functools import partial

import streamlit as st

from ui import shell
from ui.lessons import inside_layer, shared
from ui.shared.part import part
from ui.texts import t

shell.heading(t("inside_layer.title"), t("inside_layer.intro"))
with shell.explained(), st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
    shown = inside_layer.example()
    choices = st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall", width="content")
    shared.try_this("inside_layer", inside_layer.TRY)

if isinstance(shown, inside_layer.Convolution):
    inside_layer.letters_panel(shown)
else:
    part(partial(inside_layer.panel, shown, choices))
