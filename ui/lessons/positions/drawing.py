"""How the lesson "Positions" draws: formulas, figures, and tables to take away."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from transformer.figures.export import plot_config
from transformer.figures.lessons import number_map
from transformer.lessons.expressions.board import Board, Matrix, numbered
from transformer.lessons.expressions.operations import Given
from transformer.lessons.positions import Variant
from ui.lessons import shared
from ui.lessons.shared import in_formula
from ui.texts import t


def dark() -> bool:
    """Whether the page is dark."""
    return st.context.theme.type == "dark"


def plot(figure: go.Figure, key: str = "positions") -> None:
    """A figure under a key of its own."""
    st.plotly_chart(figure, key=f"plot.{key}", config=plot_config(key, "svg"))


def table_plot(table: np.ndarray, key: str = "positions") -> None:
    """A whole table of positions as colours."""
    names = t("positions.position"), t("positions.dimension"), t("positions.value")
    plot(number_map(table, *names, dark=dark()), key)


def table_downloads(**tables: np.ndarray) -> None:
    """Tables as downloads, by name."""
    made = [
        Matrix(name, "T", "input", table, numbered(len(table)), numbered(table.shape[1]), Given())
        for name, table in tables.items()
    ]
    shared.matrix_downloads(Board.of(made), list(tables))


def formula(variant: Variant) -> None:
    """A variant's table as an equation."""
    st.latex(
        {
            "paper": r"\begin{aligned} t_{p,2i} &= \sin\frac{p}{\mathrm{base}^{2i/d}} \\[0.6em] "
            r"t_{p,2i+1} &= \cos\frac{p}{\mathrm{base}^{2i/d}} \end{aligned}",
            "doubled": r"\begin{aligned} t_{p,j} &= \sin\frac{p}{\mathrm{base}^{2j/d}} \quad "
            + in_formula("positions.formula_even", j="j")
            + r" \\[0.6em] "
            r"t_{p,j} &= \cos\frac{p}{\mathrm{base}^{2j/d}} \quad "
            + in_formula("positions.formula_odd", j="j")
            + r"\end{aligned}",
            "halves": r"t_p = [\,\sin p\,\omega_0, \sin p\,\omega_1, \ldots, "
            r"\cos p\,\omega_0, \cos p\,\omega_1, \ldots\,]",
            "learned": r"t_p \in \mathbb{R}^d \enspace " + in_formula("positions.formula_free"),
            "none": r"t_p = 0",
        }[variant]
    )
