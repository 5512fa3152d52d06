"""The screens of the lesson "Positions" that look at one table: its numbers, its waves, distances and rotation."""

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given, Operation
from transformer.lessons.expressions.rowwise import Product
from transformer.lessons.positions import (
    VARIANTS,
    likeness,
    position_table,
    rotation,
    rotation_errors,
    similarity,
    turning_angles,
    wavelength,
    waves,
)
from transformer.plots.curves import curves
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.positions.controls import variant
from ui.lessons.positions.drawing import counted, dark, formula, plot, product_formula, table_downloads, table_plot
from ui.lessons.positions.learned import shown_table
from ui.shared.address import whole
from ui.texts import plain, t

SAME = 1e-9
"""Differences up to this are rounding."""

STILL = 0.01
"""A dimension that changes by less over the whole table hardly moves."""

ANGLES = 4
"""Pairs whose angles are said, besides the last one."""


def table_panel(d_model: int, length: int, base: float, bar: DeltaGenerator) -> None:
    """The whole table as colours."""
    with bar:
        chosen = variant("variant", VARIANTS, "paper")
    shown = shown_table(chosen, length, d_model, base)
    n_still, (rows, width) = int((np.ptp(shown.table, axis=0) < STILL).sum()), shown.table.shape
    left, right = shared.columns()
    with left:
        table_plot(shown.table, plain(f"positions.variant_{chosen}"))
        table_downloads({"table": shown.table})
    with right:
        formula(chosen)
        shared.explain(f"{t('positions.look_table')} {shown.note}")
        st.markdown(t("positions.still", still=n_still, width=width, rows=rows))


def waves_panel(d_model: int, length: int, base: float, bar: DeltaGenerator) -> None:
    """Single dimensions as curves, with their wavelength; positions are the dots on them."""
    with bar:
        picked = whole(t("positions.pick"), 0, d_model - 1, min(2, d_model - 1), key="dim", width=260)
    table = position_table("paper", length, d_model, base)
    dimensions = sorted({picked, *(int(d_model * part) // 2 * 2 for part in (0, 0.25, 0.5, 0.75))})
    place, between = waves(dimensions, length, d_model, base)
    lines = {
        plain("positions.wave", dimension=dimension, length=wavelength(dimension, d_model, base)): between[:, i]
        for i, dimension in enumerate(dimensions)
    }
    names = plain("positions.position"), plain("positions.value")
    step = (len(place) - 1) // (length - 1)
    columns = tuple(plain("positions.dimension_number", number=dimension) for dimension in dimensions)
    left, right = shared.columns()
    with left:
        plot(curves(lines, *names, x=place.tolist(), dots=range(0, len(place), step), dark=dark()))
        table_downloads({"waves": table[:, dimensions]}, columns)
    with right:
        st.latex(r"\lambda_i = 2\pi \cdot \mathrm{base}^{\,2i/d}")
        shared.explain(t("positions.look_waves"))


def distance_panel(d_model: int, length: int, base: float, bar: DeltaGenerator) -> None:
    """Dot products against distance, from several positions; what is said of them is computed from the table."""
    with bar:
        chosen = variant("variant", VARIANTS, "paper")
    shown = shown_table(chosen, length, d_model, base)
    products = similarity(shown.table)
    starts = sorted({0, len(products) // 4, len(products) // 2})
    lines = {plain("positions.from", position=start): products[start, start:] for start in starts}
    found = likeness(products)
    left, right = shared.columns()
    with left:
        plot(curves(lines, plain("positions.distance"), plain("positions.product"), dark=dark()))
        table_downloads({"products": products})
    with right:
        product_formula(chosen, d_model)
        if found.nothing:
            st.markdown(t("positions.like_nothing"))
        else:
            alone = found.spread < SAME
            said = t("positions.like_alone") if alone else t("positions.like_parted", spread=found.spread)
            falls = "positions.like_ripples" if found.rises else "positions.like_falls"
            shared.explain(f"{said} {t(falls, rises=found.rises, steps=found.steps)}")
        shared.explain(f"{t('positions.look_distance')} {shown.note}")


def rotation_panel(d_model: int, length: int, base: float, bar: DeltaGenerator) -> None:
    """The matrix that takes position p to p + k."""
    with bar:
        k = whole(t("positions.steps"), 0, length - 1, min(3, length - 1), key="steps", width=260)
        start = whole(t("positions.start"), 0, length - 1 - k, 0, key="p", width=260)
    table = position_table("paper", length, d_model, base)
    errors = rotation_errors(table, k, base)
    board, titles = _rotation_board(table, rotation(k, d_model, base), start, k)
    angles = _angles(turning_angles(k, d_model, base))
    here = t("positions.rotation_here", p=start, q=start + k, error=float(errors[start]))
    count = t("positions.rotation_error", count=len(errors), error=float(errors.max()))
    left, right = shared.columns()
    with left:
        about = shared.about("positions.screen_rotation", here, angles, formulas=["R t_p = t_(p+k)"])
        name = f"rotation-{k}"
        matrices(board, list(board), None, key="rotation", titles=titles, file_name=name, elided=True, about=about)
        shared.matrix_downloads(board, list(board))
    with right:
        st.latex(
            r"\begin{pmatrix} \sin((p+k)\omega_i) \\ \cos((p+k)\omega_i) \end{pmatrix} = "
            r"\begin{pmatrix} \cos k\omega_i & \sin k\omega_i \\ -\sin k\omega_i & \cos k\omega_i \end{pmatrix} \cdot "
            r"\begin{pmatrix} \sin p\omega_i \\ \cos p\omega_i \end{pmatrix}"
        )
        shared.explain(t("positions.look_rotation"))
        shared.explain(f"{here} {count if len(errors) > 1 else ''} {t('positions.angles', k=k, angles=angles)}")


def _angles(angles: np.ndarray) -> str:
    """The angle of each pair, of the first few and the last where there are many."""
    pairs = range(len(angles)) if len(angles) <= ANGLES + 1 else [*range(ANGLES), len(angles) - 1]
    return plain("positions.comma").join(plain("positions.angle", pair=i, angle=float(angles[i])) for i in pairs)


def _rotation_board(table: np.ndarray, turn: np.ndarray, start: int, k: int) -> tuple[Board, dict[str, str]]:
    """The row of a position, the matrix that turns it, what comes out and what should; and what each is called."""
    wide = counted(len(turn))
    made: dict[str, tuple[np.ndarray, tuple[str, ...], Operation]] = {
        "t_p": (table[start][None], (str(start),), Given()),
        "R": (turn, wide, Given()),
        "turned": ((turn @ table[start])[None], (f"{start} → {start + k}",), Product("t_p", "R", transposed=True)),
        "t_q": (table[start + k][None], (str(start + k),), Given()),
    }
    symbols = {"t_p": "t", "R": r"\Omega", "turned": r"\Omega t", "t_q": "t"}
    board = Board.of(
        Matrix(name, symbols[name], "input", values, rows, wide, operation)
        for name, (values, rows, operation) in made.items()
    )
    titles = {
        "t_p": plain("positions.row_of", p=start), "R": plain("positions.rotation_matrix", k=k),
        "turned": plain("positions.row_turned"), "t_q": plain("positions.row_of", p=start + k),
    }  # fmt: skip
    return board, titles
