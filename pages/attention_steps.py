"""Attention, step by step: one layer as matrices; pick a cell to see its equation and all that it touches."""

import streamlit as st

from transformer.errors import AttentionAtlasError
from ui import attention_panels, attention_steps, controls, frame, lessons
from ui.texts import t

frame.heading(t("attention_steps.title"), t("attention_steps.intro"))
kind = attention_steps.kind()
try:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        lessons.try_this("attention_steps", attention_steps.TRY, attention_steps.DEFAULTS)
        example = attention_steps.example(kind)
        if example is None:
            st.stop()
        recipe = attention_steps.recipe(example)
    board = example.board(recipe)
except AttentionAtlasError as error:
    controls.explain(error)
    st.stop()

attention_steps.notes(example, recipe)
screen = attention_steps.screen()
if screen == "steps":
    attention_panels.steps_panel(board, example.kind)
elif screen == "board":
    attention_panels.board_panel(board)
else:
    standard = example.board(attention_steps.STANDARD)
    attention_panels.rows_panel(standard, board, recipe if example.can_change else None)
