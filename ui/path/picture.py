"""A question's picture: numbers that are given, and places whose cells a reader clicks to predict."""

from collections.abc import Callable

import numpy as np

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.teaching.case import Case
from transformer.teaching.data import Kind
from ui.components.matrices.component import Cell, matrices
from ui.texts import plain

GIVEN, ANSWER = "given", "answer"
"""The two matrices of the picture."""

LEVELS = 10
"""Steps in which a bar of a row of weights is drawn."""

FILLED = 0.5
"""How a cell that was clicked is sent; an order sends its places instead."""

FULL = 100
"""The part that the highest bar stands for; only the proportions count."""


def clickable(kind: Kind, found: Case) -> bool:
    """Whether a question is answered on its picture."""
    return kind == "row" or found.cells is not None


def draw(kind: Kind, found: Case, guess: tuple[int, ...], key: str, on_pick: Callable[[tuple[int, ...]], None]) -> None:
    """Draw what is given, and the cells to click with the prediction in them; a click hands over the next prediction.

    Of the answer nothing is drawn, and nothing of it is sent.
    """
    rows, columns, values = _drawn_row(found, guess) if kind == "row" else _picked_cells(kind, found, guess)
    made = [Matrix(ANSWER, "", "", values, rows, columns, Given())]
    if found.given is not None:
        made.insert(0, Matrix(GIVEN, "", "", found.given.values, found.given.rows, found.given.columns, Given()))
    board = Board.of(made)

    def pick(cell: Cell | None) -> None:
        if cell is not None:
            on_pick(clicked(kind, found, guess, cell))

    titles = {GIVEN: plain("questions.given"), ANSWER: plain("questions.predict")}
    matrices(
        board, list(board), None, key=key, asked=(ANSWER,), titles=titles, hint=plain("questions.click"),
        file_name="question", on_pick=pick,
    )  # fmt: skip


def clicked(kind: Kind, found: Case, guess: tuple[int, ...], cell: Cell) -> tuple[int, ...]:
    """The prediction after a click; a second click on a cell takes it back."""
    if kind == "row":
        if cell.matrix == GIVEN:
            return guess
        height = FULL * (LEVELS - cell.row) // LEVELS
        drawn = list(guess or [0] * len(found.options))
        drawn[cell.column] = height - FULL // LEVELS if drawn[cell.column] == height else height
        return tuple(drawn)
    rows, columns = found.cells or ((), ())
    one = min(cell.row, len(rows) - 1) * len(columns) + min(cell.column, len(columns) - 1)
    if kind == "choice":
        return () if guess == (one,) else (one,)
    kept = tuple(other for other in guess if other != one)
    now = kept if one in guess else (*kept, one)
    return now if kind == "order" else tuple(sorted(now))


def _picked_cells(
    kind: Kind, found: Case, guess: tuple[int, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray]:
    rows, columns = found.cells or ((), ())
    values = np.full(len(rows) * len(columns), np.nan)
    for place, one in enumerate(guess, 1):
        values[one] = place if kind == "order" else FILLED
    return rows, columns, values.reshape(len(rows), len(columns))


def _drawn_row(found: Case, guess: tuple[int, ...]) -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray]:
    """Bars of cells, one a key, filled up to the part that was drawn."""
    levels = np.arange(FULL, 0, -FULL // LEVELS)
    drawn = np.array(guess or [0] * len(found.options))
    return tuple(f"{one} %" for one in levels), found.options, (drawn >= levels[:, None]) * FILLED
