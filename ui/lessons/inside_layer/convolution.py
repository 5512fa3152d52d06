"""The toy of the lesson "Inside a layer" that reads letters: one convolution, window by window."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.inside.convolution import ALPHABET, LONGEST, MOST_FILTERS, WIDEST, convolution_board
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.picking import pick, picked
from ui.lessons.working import equation, example_cell
from ui.shared.address import belong_to, line, whole
from ui.texts import plain, t

START = "CAGGTAAGTA"
"""Letters around the start of an intron, as they often are."""


def letters_panel(choices: DeltaGenerator) -> None:
    """Every window of the letters, what each filter answers to it, and one answer worked out.

    Raises:
        HeedmapError: the letters cannot be read.
    """
    with choices:
        letters = line(t("inside_layer.letters", most=LONGEST), START, key="letters", width=220)
        with st.popover(t("attention_steps.size"), icon=":material/straighten:"):
            width = whole(t("inside_layer.window"), 1, WIDEST, 3, key="window")
            count = whole(t("inside_layer.filters"), 1, MOST_FILTERS, 2, key="filters")
            seed = whole(t("attention_steps.seed"), 0, 9_999, 1, key="seed")
        belong_to((letters, width), shared.CELL)
    board = convolution_board(letters, width, count, seed)
    cell = picked(board, list(board), None, head=0)
    shown = cell or example_cell(board, "answers")
    titles = {name: plain(f"inside_layer.title_letters_{name}") for name in board}
    left, right = shared.columns()
    with right:
        answers = board["answers"]
        window, column = divmod(int(answers.values.argmax()), answers.values.shape[1])
        fields = {"letters": len(letters), "width": width, "windows": len(answers.rows)}
        strongest = {"filter": column, "window": answers.rows[window], "value": float(answers.values.max())}
        shared.explain(t("inside_layer.look_letters", weights=len(ALPHABET) * width, **fields, **strongest))
        equation(board, shown, is_example=cell is None, with_formula=True)
    with left:
        matrices(
            board, list(board), shown, key="matrices", titles=titles, example=cell is None,
            about=shared.about("inside_layer.made_letters", letters, formulas=board.formulas("answers")),
            on_pick=partial(pick, board, None),
        )  # fmt: skip
        shared.matrix_downloads(board, list(board), titles=titles)
