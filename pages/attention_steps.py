"""Attention, step by step: one layer as matrices; pick a cell to see its equation and all that it touches."""

import streamlit as st

from ui import shell
from ui.lessons import attention_example, attention_steps, shared
from ui.shared.part import part
from ui.texts import t

shell.heading(t("attention_steps.title"), t("attention_steps.intro"))
bar = st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall")
with shell.explained(), bar:
    example = attention_example.example()


def looked_at() -> None:
    """The open screen of the example, computed as is chosen here."""
    with bar:
        recipe = attention_steps.recipe(example)
        board = example.board(recipe)
        screens = ["steps", "board", *(["rows"] if example.can_change else []), "why"]
        screen = shared.listed("attention_steps.screen", screens, key="screen", width=150, bare=True)
        head_place = st.empty()
    attention_steps.changed(example, recipe)
    if screen in {"steps", "board"}:
        attention_steps.worked_panel(example, board, recipe, head_place, by_step=screen == "steps")
    elif screen == "rows":
        attention_steps.rows_panel(example, board, recipe, head_place)
    else:
        attention_steps.why_panel(board)


part(looked_at)
with bar:
    shared.try_this("attention_steps", attention_steps.TRY)
