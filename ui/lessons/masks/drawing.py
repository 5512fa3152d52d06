"""How the lesson "Masks" draws its matrices."""

from typing import Any

import numpy as np

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.masks import MaskView, Reason
from ui.components.matrices.component import Notes, matrices
from ui.lessons import shared
from ui.texts import t


def matrix(name: str, symbol: str, values: Any, rows: tuple[str, ...], columns: tuple[str, ...], hidden: Any) -> Matrix:
    """A matrix of numbers that are given; True in `hidden` is a cell that the mask hides."""
    return Matrix(name, symbol, "mask", np.asarray(values, dtype=float), rows, columns, Given(), None, hidden)


def draw(board: Board, view: MaskView, titles: dict[str, str] | None = None) -> None:
    """Matrices with the reason of every cell on hover, and their downloads."""
    sentences = tuple(t(f"masks.reason_{reason.value}") for reason in Reason)
    notes = {name: Notes(view.reasons, sentences) for name in board if board[name].values.shape == view.visible.shape}
    titles = titles or {name: t(f"masks.{name}") for name in board}
    weights = [name for name in board if name in {"weights", "right", "broken"}]
    matrices(board, list(board), None, key="masks", weights=weights, titles=titles, hint=t("masks.hint"), notes=notes)
    shared.matrix_downloads(board, list(board))
