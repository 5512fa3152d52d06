"""The panels of the lesson "Attention, step by step": one step, the whole board, the rows before and after."""

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float

from transformer.attention.measures import entropy
from transformer.figures.export import plot_config
from transformer.figures.lessons import curves
from transformer.lessons.attention import STAGES, temperature_curve
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.expressions.rowwise import Softmax
from transformer.lessons.recipe import COLDEST, HOTTEST, Recipe
from ui.components.matrices.component import Cell, matrices
from ui.lessons import shared
from ui.lessons.attention_steps.controls import RECURRENT
from ui.shared.address import choice
from ui.texts import t

TEMPERATURES = np.geomspace(COLDEST, HOTTEST, 41).tolist()
"""Where the entropy curve is computed."""


def steps_panel(board: Board, kind: str) -> None:
    """One step of the computation: its matrices, what to look at, the picked cell's equation."""
    stages = [stage for stage in STAGES if any(matrix.stage == stage for matrix in board.values())]
    stage = choice(
        t("attention_steps.stage"), stages, key="stage", default="scores", bare=True,
        text=lambda stage: t(f"attention_steps.stage_{stage}"),
    )  # fmt: skip
    head = _head(board)
    made = [matrix.name for matrix in board.values() if matrix.stage == stage and matrix.head in {None, head}]
    needed = {operand for name in made for operand in board[name].operation.operands}
    names = [name for name in board if name in needed or name in made]
    st.caption(t(_what_to_look_at(stage, kind, board)))
    for latex in _formula(stage, kind, board, head):
        st.latex(latex)
    cell = shared.picked_cell(board, _example(board, made[-1]))
    _draw(board, names, cell)
    st.markdown(f"**{t('attention_steps.equation')}**")
    _equation(board, cell)


def _what_to_look_at(stage: str, kind: str, board: Board) -> str:
    """The key of the text for a step of the attention that is shown."""
    if kind in RECURRENT:
        variant = {"project": f"_{kind}", "scores": f"_{kind}", "input": "_recurrent", "mix": "_recurrent"}
    else:
        variant = {"input": "" if "E" in board else "_given", "residual": "" if "Y" in board else "_norm_first"}
    return f"attention_steps.look_{stage}{variant.get(stage, '')}"


def board_panel(board: Board) -> None:
    """Every matrix of one head."""
    st.caption(t("attention_steps.look_board"))
    head = _head(board)
    cell = shared.picked_cell(board, _example(board, "S" if "S" in board else f"S{head}"))
    _equation(board, cell)
    _draw(board, [matrix.name for matrix in board.values() if matrix.head in {None, head}], cell)


def rows_panel(standard: Board, board: Board, changed: Recipe | None) -> None:
    """The weights before and after the change, row by row: entropy, row sum, what temperature does.

    `changed` made `board`; None for attention in which nothing can be changed.
    """
    st.caption(t("attention_steps.look_rows"))
    head = _head(board)
    now = _used(board, head)
    before = standard["A" if "A" in standard else f"A{min(head, shared.n_heads(standard) - 1)}"]
    both = Board.of(
        Matrix(name, symbol, "softmax", matrix.values, matrix.rows, matrix.columns, Given(), None, matrix.hidden)
        for name, symbol, matrix in (("standard", before.symbol, before), ("now", now.symbol, now))
    )
    titles = {name: t(f"attention_steps.{name}") for name in both}
    matrices(both, list(both), None, key="rows", weights=list(both), titles=titles)
    spread = {"standard": entropy(before.values), "now": entropy(_weights(board, head).values)}
    st.latex(r"H_i = -\sum_j A_{ij} \ln A_{ij}")
    table = pd.DataFrame(
        {
            t("attention_steps.query"): list(now.rows),
            t("attention_steps.entropy_standard"): spread["standard"],
            t("attention_steps.entropy_now"): spread["now"],
            t("attention_steps.row_sum"): now.values.sum(axis=1),
        }
    )
    numbers = {name: st.column_config.NumberColumn(format="%.4f") for name in table.columns[1:]}
    st.dataframe(table, hide_index=True, width="content", key="entropies", column_config=numbers)
    means = {name: _mean(values) for name, values in spread.items()}
    n_keys = len(now.columns)
    st.caption(t("attention_steps.most", n=n_keys, value=float(np.log(n_keys)), **means))
    if changed is not None:
        _temperature(board, head, changed)
    shared.matrix_downloads(both, list(both), {"entropies": table})


def _mean(entropies: Float[np.ndarray, " query"]) -> float:
    """The mean over queries that see something; NaN where none does."""
    known = entropies[~np.isnan(entropies)]
    return float(known.mean()) if known.size else float("nan")


def _temperature(board: Board, head: int, changed: Recipe) -> None:
    """The entropy of every row at other temperatures, the present one marked."""
    st.markdown(f"**{t('attention_steps.curve')}**")
    st.caption(t("attention_steps.look_curve"))
    st.latex(
        r"A(T) = \mathrm{softmax}(S / T)" if not changed.scaled else r"A(T) = \mathrm{softmax}(S / (T \sqrt{d_k}))"
    )
    found = temperature_curve(board, head, changed, TEMPERATURES)
    lines = dict(zip(board[f"Q{head}"].rows, found.T, strict=True))
    figure = curves(
        lines, t("attention_steps.temperature"), t("attention_steps.entropy"), x=TEMPERATURES, log_x=True,
        mark=changed.temperature, dark=st.context.theme.type == "dark",
    )  # fmt: skip
    st.plotly_chart(figure, key="curve", config=plot_config("entropy", "svg"))


def _example(board: Board, name: str) -> Cell:
    """The cell that is worked out until one is picked: the first row's second, if there are two."""
    return Cell(name, 0, min(1, board[name].values.shape[1] - 1))


def _draw(board: Board, names: list[str], cell: Cell | None) -> None:
    """The matrices, and what belongs to the picked cell."""
    matrices(
        board,
        names,
        cell,
        key="matrices",
        weights=[name for name in names if board[name].stage == "softmax"],
        titles={name: t(f"attention_steps.title_{_kind_of(name)}") for name in names},
        on_pick=shared.pick_cell,
    )
    shared.matrix_downloads(board, names)


def _equation(board: Board, cell: Cell | None) -> None:
    """The picked cell worked out: its equation, and every term."""
    if cell is None:
        st.caption(t("attention_steps.equation_none"))
        return
    worked = board.equation(cell.matrix, cell.row, cell.column)
    st.latex(worked.latex)
    if isinstance(board[cell.matrix].operation, Softmax):
        _softmax_table(board[cell.matrix], cell.row, worked.terms)
    elif len(worked.terms) > 1:
        with st.expander(t("attention_steps.terms", count=len(worked.terms))):
            columns = [t("attention_steps.term"), t("attention_steps.value")]
            st.dataframe(pd.DataFrame(worked.terms, columns=columns), hide_index=True, width="content")


def _kind_of(name: str) -> str:
    """What a matrix is, whichever head's: `Q` of `Q0`, `W` of `W_Q0`."""
    return name if name in _WHOLE else name.split("_", maxsplit=1)[0].rstrip("0123456789")


_WHOLE = ("sE", "EP", "s", "e", "v")
"""Matrices whose name is no letter with a head's number."""


def _softmax_table(matrix: Matrix, row: int, terms: tuple[tuple[str, float], ...]) -> None:
    """exp, sum, quotient of one row."""
    table = pd.DataFrame(
        {
            t("attention_steps.key"): [*matrix.columns, t("attention_steps.sum")],
            t("attention_steps.exponential"): [*(value for _, value in terms), sum(value for _, value in terms)],
            t("attention_steps.quotient"): [*matrix.values[row], float(matrix.values[row].sum())],
        }
    )
    st.dataframe(table, hide_index=True, width="content", key="softmax-row")


def _head(board: Board) -> int:
    heads = shared.n_heads(board)
    if heads == 1:
        return 0
    return int(choice(t("lessons.head"), [str(head) for head in range(heads)], key="at_head", text=str))


def _weights(board: Board, head: int) -> Matrix:
    """The softmax's rows."""
    return board["A"] if "A" in board else board[f"A{head}"]


def _used(board: Board, head: int) -> Matrix:
    """The weights that mix the values: after dropout, if there is any."""
    return board[f"B{head}"] if f"B{head}" in board else _weights(board, head)


def _formula(stage: str, kind: str, board: Board, head: int) -> list[str]:
    """The step as an equation between matrices."""
    if kind == "additive":
        return {
            "project": [r"Q = s\,W^Q + b, \qquad K = H\,W^K + b"],
            "scores": [r"T_j = \tanh(Q + K_j), \qquad S_j = v \cdot T_j + b"],
            "softmax": [r"A_j = e^{S_j} \big/ \textstyle\sum_k e^{S_k}"],
            "mix": [r"c = \textstyle\sum_j A_j H_j"],
        }.get(stage, [])
    if kind == "location":
        return {
            "project": [r"[e; s]"],
            "scores": [r"S = [e; s]\,W + b"],
            "softmax": [r"A_j = e^{S_j} \big/ \textstyle\sum_k e^{S_k}"],
            "mix": [r"c = \textstyle\sum_j A_j H_j"],
        }.get(stage, [])
    queries = "\\hat X" if "N" in board else "X"
    keys = "H" if "H" in board else queries
    d_k = board[f"Q{head}"].values.shape[1]
    return {
        "input": [r"X = \sqrt{d}\,E + P"] if "sE" in board else [],
        "project": [rf"Q = {queries}\,W^Q, \qquad K = {keys}\,W^K, \qquad V = {keys}\,W^V"],
        "scores": [r"S = Q\,K^\top"],
        "scale": [rf"S \big/ \sqrt{{d_k}}, \qquad d_k = {d_k}"],
        "mask": [r"M_{ij} = -\infty \enspace " + shared.in_formula("attention_steps.formula_mask", i="i", j="j")],
        "softmax": [r"A_{ij} = e^{M_{ij}} \big/ \textstyle\sum_k e^{M_{ik}}"],
        "mix": [r"Z_h = A_h\,V_h"],
        "concatenate": [r"Z = [Z_0, Z_1, \ldots]"],
        "output": [r"O = Z\,W^O"],
        "residual": [r"R = X + O" + (r", \qquad Y = \mathrm{LayerNorm}(R)" if "Y" in board else "")],
    }[stage]
