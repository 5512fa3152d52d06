"""The panel of the lesson "Inside a layer": one step's matrices, its formulas, what is found, one cell worked out."""

from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.expressions.board import Board
from transformer.lessons.expressions.operations import number
from transformer.lessons.inside import norms
from transformer.lessons.inside.boards import embedding_board, feed_forward_board, order_board, residual_board
from transformer.lessons.inside.outputs import likeliest, output_board, positions_of
from transformer.lessons.run import Run
from transformer.nn.norms import norm_kind
from transformer.plots.canvas.about import About
from transformer.plots.file_names import file_name
from ui.components.matrices.component import Cell, matrices
from ui.components.matrices.readable import readable
from ui.lessons import shared
from ui.lessons.inside_layer import controls
from ui.lessons.inside_layer.captions import said_of, title_of
from ui.lessons.inside_layer.examples import Example
from ui.lessons.picking import pick, picked
from ui.lessons.working import equation, example_cell
from ui.markdown import as_text
from ui.texts import plain, t

WEIGHTS = ("p", "g", "gU", "c", "on")
"""Matrices of shares, on the scale from 0 to 1; `g` of the norm is none."""


def panel(example: Example, stage: str, choices: DeltaGenerator) -> None:
    """One step of a run; its controls stand in `choices`.

    Raises:
        HeedmapError: the run has no such place.
    """
    run, form, position = example.run, "", 0
    with choices:
        at = controls.place(run, stage)
        if stage == "norm":
            form = controls.form(run, at)
        if stage == "output":
            if not positions_of(run):
                st.info(t("inside_layer.no_output"), icon=":material/info:")
                return
            position = controls.position(run)
    board = _board(run, stage, at, position)
    names = _shown(board, stage, form)
    cell = picked(board, names, stage, head=0)
    shown = cell or example_cell(board, _result(names, board, stage))
    titles = {name: title_of(example, stage, name, at) for name in names}
    left, right = shared.columns()
    with right:
        words = said_of(example, board, stage, at, form, position)
        shared.explain(as_text(words))
        equation(board, shown, is_example=cell is None, with_formula=True)
        if stage == "norm":
            _beside(board, run, at, shown)
        if stage == "output" and len(positions_of(run)) > 1:
            _next(run)
        with st.expander(t("inside_layer.formulas")):
            for formula in _formulas(board, names):
                st.latex(formula)
    with left:
        _draw(example, board, names, stage, cell, shown, titles, words)


def _board(run: Run, stage: str, at: controls.Place, position: int) -> Board:
    place = at.stack, at.layer, at.part
    match stage:
        case "embedding":
            return embedding_board(run, at.stack)
        case "residual":
            return residual_board(run, *place)
        case "norm":
            return norms.norm_board(run, *place)
        case "order":
            return order_board(run, *place)
        case "feed_forward":
            return feed_forward_board(run, at.stack, at.layer)
        case _:
            return output_board(run, position)


def _shown(board: Board, stage: str, form: str) -> list[str]:
    """The matrices that are drawn: of the norm those of one form, or what the forms make."""
    return list(norms.SHOWN[form] if stage == "norm" else board)


def _formulas(board: Board, names: list[str]) -> list[str]:
    """How all that is drawn is made, also by way of what is not drawn."""
    needed = set(names)
    for name in reversed(list(board)):
        if name in needed:
            needed |= set(board[name].operation.operands)
    return [formula for name in board if name in needed for formula in board.formulas(name)]


def _result(names: list[str], board: Board, stage: str) -> str:
    """The matrix whose cell is worked out until one is picked: the step's last one that is no single column."""
    made = [name for name in names if board[name].stage == stage]
    return next((name for name in reversed(made) if board[name].values.shape[1] > 1), made[-1])


def _draw(
    example: Example,
    board: Board,
    names: list[str],
    stage: str,
    cell: Cell | None,
    shown: Cell,
    titles: dict[str, str],
    words: str,
) -> None:
    """The matrices, and what belongs to the picked cell, or to the one that is an example."""
    title = plain(f"inside_layer.stage_{stage}")
    formulas = list(map(readable, _formulas(board, names)))
    worked = readable(board.equation(shown.matrix, shown.row, shown.column).latex)
    lines = [" / ".join(example.sentences), words]
    said = About(f"{plain('inside_layer.title')}: {title}", lines, [*formulas, worked])
    name = file_name("inside_layer", stage, text=example.sentences[0])
    shares = [one for one in names if one in WEIGHTS and (one != "g" or stage == "embedding")]
    matrices(
        board, names, shown, key="matrices", weights=shares, titles=titles, example=cell is None, elided=True,
        about=said, file_name=name, on_pick=partial(pick, board, stage),
    )  # fmt: skip
    shared.matrix_downloads(board, names, titles=titles, about=[said.title, *said.lines[:1]], name=name)


def _beside(board: Board, run: Run, at: controls.Place, shown: Cell) -> None:
    """The forms of the norm beside each other: what each divides the row of the shown cell by, and how far apart."""
    own = norm_kind(run.sub_layer(at.stack, at.layer, at.part).residual.norm)
    row = shown.row if board[shown.matrix].axes[0] == "query" else 0
    found = norms.apart(board, own, row)
    labels = board["X"].rows
    table = pd.DataFrame(
        {
            t("inside_layer.form"): [plain(f"inside_layer.form_{one.kind}") for one in found],
            t("inside_layer.divided_by"): [_digits(one.divisor) for one in found],
            t("inside_layer.apart"): [_digits(one.largest) for one in found],
        }
    )
    st.markdown(t("inside_layer.forms", row=labels[row], form=plain(f"inside_layer.form_{own}")))
    narrow = {column: st.column_config.TextColumn(width="small") for column in table.columns[1:]}
    st.dataframe(table, hide_index=True, width="stretch", key="forms", column_config=narrow)


def _next(run: Run) -> None:
    """What every position's output says first."""
    table = pd.DataFrame(
        [(one.label, one.word, f"{one.probability:.3f}") for one in likeliest(run)],
        columns=[t("inside_layer.read"), t("inside_layer.first"), t("inside_layer.probability")],
    )
    with st.expander(t("inside_layer.every_position")):
        st.dataframe(table, hide_index=True, width="content", key="next-words")


def _digits(value: float) -> str:
    return readable(number(value, digits=4))
