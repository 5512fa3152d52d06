"""Inside a layer: what stands around attention, step by step; pick a cell to see its equation."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.inside_layer import controls as inside_layer
from ui.lessons.inside_layer import panels
from ui.lessons.inside_layer.convolution import letters_panel
from ui.shared import address, controls
from ui.shared.part import part
from ui.texts import t

shell.heading(t("inside_layer.title"), t("inside_layer.intro"))
try:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        made = inside_layer.made()
        is_text = made != inside_layer.LETTERS
        found = inside_layer.example(made) if is_text else None
        if found is None and is_text:
            address.stop()
        choices = st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall", width="content")
        shared.try_this("inside_layer", inside_layer.TRY, inside_layer.DEFAULTS)
except HeedmapError as error:
    controls.explain(error)
    address.stop()
example = found


def looked_at() -> None:
    """One step of the example; of letters, their convolution."""
    if example is not None:
        panels.panel(example, inside_layer.stage(), choices)
        return
    try:
        letters_panel(choices)
    except HeedmapError as error:
        controls.explain(error)


part(looked_at)
