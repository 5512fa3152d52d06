"""How the lesson "Positions" draws: formulas, figures, and tables to take away."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.positions import Variant
from transformer.plots.export import plot_config
from ui.components.heatmap.component import table_of_numbers
from ui.lessons import shared
from ui.lessons.shared import in_formula
from ui.texts import plain


def dark() -> bool:
    """Whether the page is dark."""
    return st.context.theme.type == "dark"


def plot(figure: go.Figure, key: str = "positions") -> None:
    """A figure under a key of its own."""
    st.plotly_chart(figure, key=f"plot.{key}", config=plot_config(key, "svg"))


def table_plot(table: np.ndarray, title: str, key: str = "positions") -> None:
    """A whole table of positions as colours."""
    names = plain("positions.position"), plain("positions.dimension")
    table_of_numbers(table, title, names, plain("positions.value"), key=f"plot.{key}", file_name=key)


def counted(n: int) -> tuple[str, ...]:
    """Labels of positions or dimensions, which count from 0 as in the formulas."""
    return tuple(map(str, range(n)))


def table_downloads(tables: Mapping[str, np.ndarray], columns: tuple[str, ...] | None = None) -> None:
    """Tables as downloads, by name; rows and columns count from 0, unless `columns` names these."""
    made = [
        Matrix(name, "P", "input", table, counted(len(table)), columns or counted(table.shape[1]), Given())
        for name, table in tables.items()
    ]
    shared.matrix_downloads(Board.of(made), list(tables))


def formula(variant: Variant) -> None:
    """A variant's table as an equation; dimensions and positions count from 0."""
    st.latex(
        {
            "paper": r"t_{p,2i} = \sin\!\left(p\,\omega_i\right), \quad t_{p,2i+1} = \cos\!\left(p\,\omega_i\right), "
            r"\quad \omega_i = \mathrm{base}^{-2i/d}",
            "doubled": r"t_{p,j} = \sin\!\left(p\,\mathrm{base}^{-2j/d}\right) \enspace "
            + in_formula("positions.formula_even", j="j")
            + r", \quad t_{p,j} = \cos\!\left(p\,\mathrm{base}^{-2j/d}\right) \enspace "
            + in_formula("positions.formula_odd", j="j"),
            "halves": r"t_p = [\,\sin p\,\omega_0, \sin p\,\omega_1, \ldots, "
            r"\cos p\,\omega_0, \cos p\,\omega_1, \ldots\,], \quad \omega_i = \mathrm{base}^{-2i/d}",
            "learned": r"t_p \in \mathbb{R}^d \enspace " + in_formula("positions.formula_free"),
            "none": r"t_p = 0",
        }[variant]
    )


def product_formula(variant: Variant, d_model: int) -> None:
    """The dot product of two rows of a variant's table, k positions apart, as an equation that holds for it."""
    both = {"paper", "halves"}
    if variant in both and d_model % 2 == 0:
        right = r"\textstyle\sum_i \cos(k\,\omega_i), \qquad \omega_i = \mathrm{base}^{-2i/d}"
    elif variant in both:  # the last sine has no cosine
        right = (
            r"\textstyle\sum_{i<m} \cos(k\,\omega_i) + \sin(p\,\omega_m)\,\sin((p+k)\,\omega_m), "
            r"\qquad \omega_i = \mathrm{base}^{-2i/d}, \enspace m = (d-1)/2"
        )
    elif variant == "doubled":
        right = (
            r"\textstyle\sum_{j = 0, 2, \ldots} \sin(p\,\nu_j)\sin((p+k)\,\nu_j) "
            r"+ \sum_{j = 1, 3, \ldots} \cos(p\,\nu_j)\cos((p+k)\,\nu_j), \qquad \nu_j = \mathrm{base}^{-2j/d}"
        )
    else:
        right = r"\textstyle\sum_j t_{p,j}\,t_{p+k,j}" if variant == "learned" else "0"
    st.latex(rf"t_p \cdot t_{{p+k}} = {right}")
