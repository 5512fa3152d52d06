"""Attention, step by step: one layer as matrices; pick a cell to see its equation and all that it touches."""

import streamlit as st

from transformer.errors import HeedmapError
from ui import shell
from ui.lessons import shared
from ui.lessons.attention_steps import controls as attention_steps
from ui.lessons.attention_steps import panels
from ui.shared import address, controls
from ui.texts import t

shell.heading(t("attention_steps.title"), t("attention_steps.intro"))
kind = attention_steps.kind()
try:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        shared.try_this("attention_steps", attention_steps.TRY, attention_steps.DEFAULTS)
        example = attention_steps.example(kind)
        if example is None:
            address.stop()
        recipe = attention_steps.recipe(example)
    board = example.board(recipe)
except HeedmapError as error:
    controls.explain(error)
    address.stop()

attention_steps.notes(example, recipe)
screen = attention_steps.screen()
if screen == "steps":
    panels.steps_panel(board, example.kind)
elif screen == "board":
    panels.board_panel(board)
else:
    standard = example.board(attention_steps.STANDARD)
    panels.rows_panel(standard, board, recipe if example.can_change else None)
