"""The screens of the lesson "Positions" that look at one table: its numbers, its waves, distances and rotation."""

import numpy as np
import streamlit as st

from transformer.figures.lessons import curves
from transformer.lessons.expressions.board import Board, Matrix, numbered
from transformer.lessons.expressions.operations import Given, Operation
from transformer.lessons.expressions.rowwise import Product
from transformer.lessons.positions import (
    VARIANTS,
    position_table,
    rotation,
    rotation_errors,
    similarity,
    wavelength,
)
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.positions.controls import variant
from ui.lessons.positions.drawing import dark, formula, plot, table_downloads, table_plot
from ui.shared.address import whole
from ui.texts import t


def table_panel(d_model: int, length: int, base: float) -> None:
    """The whole table as colours."""
    st.caption(t("positions.look_table"))
    chosen = variant("variant", VARIANTS, "paper")
    formula(chosen)
    table = position_table(chosen, length, d_model, base)
    table_plot(table)
    table_downloads(table=table)


def waves_panel(d_model: int, length: int, base: float) -> None:
    """Single dimensions as curves, with their wavelength."""
    st.caption(t("positions.look_waves"))
    st.latex(r"\lambda_i = 2\pi \cdot \mathrm{base}^{\,2i/d}")
    table = position_table("paper", length, d_model, base)
    picked = whole(t("positions.pick"), 0, d_model - 1, min(2, d_model - 1), key="dim")
    shown = sorted({picked, *(int(d_model * part) // 2 * 2 for part in (0, 0.25, 0.5, 0.75))})
    lines = {
        t("positions.wave", dimension=dimension, length=wavelength(dimension, d_model, base)): table[:, dimension]
        for dimension in shown
    }
    plot(curves(lines, t("positions.position"), t("positions.value"), dark=dark()))
    table_downloads(waves=table[:, shown])


def distance_panel(d_model: int, length: int, base: float) -> None:
    """Dot products against distance, from several positions."""
    st.caption(t("positions.look_distance"))
    chosen = variant("variant", VARIANTS, "paper")
    st.latex(r"t_p \cdot t_{p+k} = \textstyle\sum_i \cos(k\,\omega_i), \qquad \omega_i = \mathrm{base}^{-2i/d}")
    products = similarity(position_table(chosen, length, d_model, base))
    starts = sorted({0, length // 4, length // 2})
    lines = {t("positions.from", position=start): products[start, start:] for start in starts}
    plot(curves(lines, t("positions.distance"), t("positions.product"), dark=dark()))
    table_downloads(products=products)


def rotation_panel(d_model: int, length: int, base: float) -> None:
    """The matrix that takes position p to p + k."""
    st.caption(t("positions.look_rotation"))
    st.latex(
        r"\begin{pmatrix} \sin((p+k)\omega) \\ \cos((p+k)\omega) \end{pmatrix} = "
        r"\begin{pmatrix} \cos k\omega & \sin k\omega \\ -\sin k\omega & \cos k\omega \end{pmatrix}"
        r"\begin{pmatrix} \sin p\omega \\ \cos p\omega \end{pmatrix}"
    )
    k = whole(t("positions.steps"), 0, length - 1, min(3, length - 1), key="steps")
    start = whole(t("positions.start"), 0, length - 1 - k, 0, key="p")
    table = position_table("paper", length, d_model, base)
    errors = rotation_errors(table, k, base)
    st.markdown(t("positions.rotation_error", count=len(errors), error=float(errors.max())))
    board, titles = _rotation_board(table, rotation(k, d_model, base), start, k)
    matrices(board, list(board), None, key="rotation", titles=titles)
    st.caption(t("positions.rotation_here", p=start, q=start + k, error=float(errors[start])))
    shared.matrix_downloads(board, list(board))


def _rotation_board(table: np.ndarray, turn: np.ndarray, start: int, k: int) -> tuple[Board, dict[str, str]]:
    """The row of a position, the matrix that turns it, what comes out and what should; and what each is called."""
    wide = numbered(len(turn))
    made: dict[str, tuple[np.ndarray, tuple[str, ...], Operation]] = {
        "t_p": (table[start][None], (str(start),), Given()),
        "R": (turn, wide, Given()),
        "turned": ((turn @ table[start])[None], (f"{start} → {start + k}",), Product("t_p", "R", transposed=True)),
        "t_q": (table[start + k][None], (str(start + k),), Given()),
    }
    symbols = {"t_p": "t", "R": "R", "turned": "R t", "t_q": "t"}
    board = Board.of(
        Matrix(name, symbols[name], "input", values, rows, wide, operation)
        for name, (values, rows, operation) in made.items()
    )
    titles = {
        "t_p": t("positions.row_of", p=start), "R": t("positions.rotation_matrix", k=k),
        "turned": t("positions.row_turned"), "t_q": t("positions.row_of", p=start + k),
    }  # fmt: skip
    return board, titles
