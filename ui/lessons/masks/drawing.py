"""How the lesson "Masks" draws its matrices."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.masks import MaskView, Reason
from ui.components.matrices.component import Notes, matrices
from ui.lessons import shared
from ui.shared.address import parameter
from ui.texts import plain


def matrix(name: str, symbol: str, values: Any, rows: tuple[str, ...], columns: tuple[str, ...], hidden: Any) -> Matrix:
    """A matrix of numbers that are given; True in `hidden` is a cell that the mask hides."""
    return Matrix(name, symbol, "mask", np.asarray(values, dtype=float), rows, columns, Given(), None, hidden)


def draw(
    board: Board,
    view: MaskView,
    titles: Mapping[str, str] | None = None,
    outlined: Mapping[str, Bool[np.ndarray, "query key"]] | None = None,
    explained: Collection[str] | None = None,
    said: str = "",
    formula: str = "",
) -> None:
    """Matrices with their downloads; `outlined` cells are leaks.

    Hovering over a cell of those called `explained` (None: all as large as the mask) says why it is hidden.
    """
    if explained is None:
        explained = [name for name in board if board[name].values.shape == view.visible.shape]
    sentences = tuple(plain(f"masks.reason_{reason.value}") for reason in Reason)
    notes = {name: Notes(view.reasons, sentences) for name in board if name in explained}
    titles = titles or {name: plain(f"masks.{name}") for name in board}
    weights = [name for name in board if name in {"weights", "right", "broken"}]
    about = shared.about(f"masks.screen_{parameter('screen') or 'build'}", said, formulas=[formula] if formula else ())
    found = {name: cells for name, cells in (outlined or {}).items() if cells.any()}
    masks = [name for name in board if name not in {*weights, "before", "after"}]
    matrices(
        board, list(board), None, key="masks", weights=weights, masks=masks, titles=titles, hint=plain("masks.hint"),
        notes=notes, outlined=found, outline=plain("masks.outline") if found else "",
        about=about,
    )  # fmt: skip
    shared.matrix_downloads(board, list(board))
