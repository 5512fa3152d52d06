"""Attention, step by step: one layer as matrices; pick a cell to see its equation and all that it touches."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.attention_steps import controls as attention_steps
from ui.lessons.attention_steps import panels, rows, why
from ui.shared import address, controls
from ui.shared.part import part
from ui.texts import t

shell.heading(t("attention_steps.title"), t("attention_steps.intro"))
try:
    bar = st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall")
    with bar:
        kind = attention_steps.kind()
        found = attention_steps.example(kind)
        if found is None:
            address.stop()
except HeedmapError as error:
    controls.explain(error)
    address.stop()
example = found


def looked_at() -> None:
    """The open screen of the example, computed as is chosen here."""
    with bar:
        recipe = attention_steps.recipe(example)
        board = example.board(recipe)
        screen = attention_steps.screen(example.can_change)
        head_place = st.empty()
    attention_steps.changed(example, recipe)
    if screen == "steps":
        panels.steps_panel(example, board, recipe, head_place)
    elif screen == "board":
        panels.board_panel(example, board, head_place)
    elif screen == "rows":
        rows.rows_panel(example, board, recipe, head_place)
    else:
        why.why_panel(board, head_place)


part(looked_at)
with bar:
    shared.try_this("attention_steps", attention_steps.TRY, attention_steps.DEFAULTS)
