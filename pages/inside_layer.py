"""Inside a layer: what stands around attention, step by step; pick a cell to see its equation."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.inside_layer import controls as inside_layer
from ui.lessons.inside_layer import panels
from ui.shared import address, controls
from ui.shared.part import part
from ui.texts import t

shell.heading(t("inside_layer.title"), t("inside_layer.intro"))
try:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        found = inside_layer.example()
        if found is None:
            address.stop()
        choices = st.container(horizontal=True, gap="xsmall", width="content")
        shared.try_this("inside_layer", inside_layer.TRY, inside_layer.DEFAULTS)
except HeedmapError as error:
    controls.explain(error)
    address.stop()
example = found


def looked_at() -> None:
    """One step of the example."""
    panels.panel(example, inside_layer.stage(), choices)


part(looked_at)
