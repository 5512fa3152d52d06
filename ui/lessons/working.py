"""One cell of a board worked out: what the lessons that work with cells share."""

import pandas as pd
import streamlit as st

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.rowwise import TERMS_SHOWN, Softmax
from ui.components.matrices.component import Cell
from ui.texts import plain, t


def example_cell(board: Board, name: str) -> Cell:
    """The cell that is worked out until one is picked: the first row's second, if there are two."""
    return Cell(name, 0, min(1, board[name].values.shape[1] - 1))


def equation(board: Board, cell: Cell, is_example: bool, with_formula: bool = False) -> None:
    """A cell worked out: its equation; with the formula of its matrix where nothing else shows it.

    Terms that the equation leaves out are listed, and the exponentials of a softmax.
    """
    worked = board.equation(cell.matrix, cell.row, cell.column)
    matrix = board[cell.matrix]
    labels = [label for label in (matrix.rows[cell.row], matrix.columns[cell.column]) if label]
    key = "equation_example" if is_example else "equation_picked"
    with st.container(key="worked"):
        st.markdown(t(f"lessons.{key}", labels=", ".join(labels)))
        if with_formula:
            for formula in board.formulas(cell.matrix):
                st.latex(formula)
        st.latex(worked.latex)
    if isinstance(matrix.operation, Softmax):
        _softmax_table(matrix, cell.row, worked.terms)
    elif len(worked.terms) > TERMS_SHOWN:
        with st.expander(t("lessons.terms", count=len(worked.terms))):
            columns = [t("lessons.term"), t("lessons.value")]
            st.dataframe(pd.DataFrame(worked.terms, columns=columns), hide_index=True, width="content")


def _softmax_table(matrix: Matrix, row: int, terms: tuple[tuple[str, float], ...]) -> None:
    """exp, sum, quotient of one row; an undefined quotient is called so."""
    values = [*matrix.values[row], float(matrix.values[row].sum())]
    table = pd.DataFrame(
        {
            t("lessons.key"): [*matrix.columns, t("lessons.sum")],
            t("lessons.exponential"): [*(value for _, value in terms), sum(value for _, value in terms)],
            t("lessons.quotient"): [number_text(value) for value in values],
        }
    )
    number = {table.columns[1]: st.column_config.NumberColumn(format="%.4f")}
    st.dataframe(table, hide_index=True, width="content", key="softmax-row", column_config=number)


def number_text(value: float) -> str:
    """Four decimals, or the word for what is not defined."""
    return plain("lessons.undefined") if value != value else f"{value:.4f}"  # noqa: PLR0124  (NaN)
