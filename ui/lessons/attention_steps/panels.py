"""The panels of the lesson "Attention, step by step" that work with cells: one step, and the whole board."""

from collections.abc import Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.recipe import Recipe
from transformer.plots.canvas.about import About
from transformer.plots.file_names import file_name
from ui.components.matrices.component import Cell, matrices
from ui.components.matrices.readable import readable
from ui.lessons import shared
from ui.lessons.attention_steps import controls
from ui.lessons.attention_steps.captions import title_of, what_is_shown
from ui.lessons.picking import pick, picked
from ui.lessons.working import equation, example_cell
from ui.markdown import as_text
from ui.texts import plain, t


def steps_panel(example: controls.Example, board: Board, recipe: Recipe, head_place: DeltaGenerator) -> None:
    """One step of the computation: its matrices, and beside them its formula, what to look at, one cell's equation."""
    stage = controls.stage(board)
    with head_place:
        several = any(one.head == 1 for one in board.values() if one.stage == stage)
        head = controls.head(board, example.first_head) if several else 0
    made = [matrix.name for matrix in board.values() if matrix.stage == stage and matrix.head in {None, head}]
    needed = {operand for name in made for operand in board[name].operation.operands}
    names = [name for name in board if name in needed or name in made]
    cell = picked(board, names, stage, head)
    shown = cell or example_cell(board, made[-1])
    left, right = shared.columns()
    with right:
        for name in made:
            for formula in board.formulas(name):
                st.latex(formula)
        words = what_is_shown(board, stage, head, recipe, example.layer)
        kind = plain(f"attention_steps.kind_{example.kind}_note") if stage == "input" else ""
        shared.explain(as_text(f"{kind} {words}".strip()))
        equation(board, shown, is_example=cell is None)
    with left:
        step = plain(f"attention_steps.stage_{stage}")
        draw(example, board, names, cell, shown, f"{step}, {plain('attention_steps.head', head=head)}", stage)


def board_panel(example: controls.Example, board: Board, head_place: DeltaGenerator) -> None:
    """Every matrix of one head."""
    with head_place:
        head = controls.head(board, example.first_head)
    names = [matrix.name for matrix in board.values() if matrix.head in {None, head}]
    cell = picked(board, names, None, head)
    shown = cell or example_cell(board, "S" if "S" in board else f"S{head}")
    left, right = shared.columns()
    with right:
        shared.explain(t("attention_steps.look_board"))
        for formula in board.formulas(shown.matrix):
            st.latex(formula)
        equation(board, shown, is_example=cell is None)
    with left:
        title = f"{plain('attention_steps.screen_board')}, {plain('attention_steps.head', head=head)}"
        draw(example, board, names, cell, shown, title, None)


def about(example: controls.Example, title: str, lines: Sequence[str] = (), formulas: Sequence[str] = ()) -> About:
    """What a saved picture says of itself: attention, step and head; the sentence; formulas and the equation."""
    kind = plain(f"attention_steps.kind_{example.kind}")
    return About(f"{kind}: {title}", [" / ".join(example.sentences), *lines], formulas)


def draw(
    example: controls.Example,
    board: Board,
    names: list[str],
    cell: Cell | None,
    shown: Cell,
    title: str,
    stage: str | None,
) -> None:
    """The matrices, and what belongs to the picked cell, or to the one that is an example."""
    titles = {name: title_of(board, name) for name in names}
    formulas = [readable(formula) for name in names for formula in board.formulas(name)] if stage else []
    worked = readable(board.equation(shown.matrix, shown.row, shown.column).latex)
    said = about(example, title, formulas=[*formulas, worked])
    name = file_name(example.kind, title, text=example.sentences[0])
    matrices(
        board, names, shown, key="matrices", weights=[one for one in names if _is_weight(board[one])], titles=titles,
        example=cell is None, elided=True, about=said, file_name=name, on_pick=partial(pick, board, stage),
    )  # fmt: skip
    shared.matrix_downloads(board, names, titles=titles, about=[said.title, *said.lines[:1]], name=name)


def _is_weight(matrix: Matrix) -> bool:
    return matrix.stage == "softmax"
