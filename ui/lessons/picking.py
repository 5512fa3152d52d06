"""The picked cell of a lesson whose steps are matrices: it travels from step to step, head to head, kind to kind.

The address holds the cell that was clicked, so coming back shows it again; every other step shows the cell that belongs
to the same words.
"""

import re
from collections.abc import Sequence

from transformer.lessons.expressions.board import Axes, Board
from ui.components.matrices.component import Cell
from ui.lessons.shared import CELL
from ui.shared.address import parameter, set_parameter

_CELL = re.compile(r"(\w{1,8})\.(\d{1,4})\.(\d{1,4})(?:\.(\w{1,12}))?")
_OLD = re.compile(r"(\w{1,8}):(\d{1,4}),(\d{1,4})")
_HEAD = re.compile(r"\d+$")


def picked(board: Board, shown: Sequence[str], stage: str | None, head: int) -> Cell | None:
    """The picked cell as the matrices called `shown` have it; None where none is picked.

    On the step where it was picked it is that very cell, on the whole board (`stage` of None) too. On another one it is
    the cell of the step's result with the same query, key and dimension, as far as it has these; the last one where
    this board has fewer.
    """
    found = _parsed(parameter(CELL) or "")
    if found is None:
        return None
    name, row, column, at = found
    same = _of_head(board, name, head)
    if same in shown and (stage is None or board[same].stage == stage or at == stage):
        return _inside(board, same, row, column)
    place = dict(zip(_axes(board, name, same), (row, column), strict=True))
    made = [one for one in shown if stage is None or board[one].stage == stage]

    def nearness(one: str) -> tuple[int, bool, int]:
        axes = [axis for axis in board[one].axes if axis]
        return sum(axis in place for axis in axes), "query" in axes and "query" in place, made.index(one)

    best = max(made, key=nearness)
    row, column = (place.get(axis, 0) if axis else 0 for axis in board[best].axes)
    return _inside(board, best, row, column)


def pick(board: Board, stage: str | None, cell: Cell | None) -> None:
    """Put a cell into the address, with the step on which it was picked where that is not its own; None: no cell."""
    if cell is None:
        set_parameter(CELL, None)
        return
    elsewhere = stage is not None and board[cell.matrix].stage != stage
    text = f"{cell.matrix}.{cell.row}.{cell.column}"
    set_parameter(CELL, f"{text}.{stage}" if elsewhere else text)


def _parsed(text: str) -> tuple[str, int, int, str | None] | None:
    """Matrix, row and column from 0, and a step; older addresses count from 1."""
    if found := _CELL.fullmatch(text):
        return found[1], int(found[2]), int(found[3]), found[4]
    if (found := _OLD.fullmatch(text)) and int(found[2]) and int(found[3]):
        return found[1], int(found[2]) - 1, int(found[3]) - 1, None
    return None


def _of_head(board: Board, name: str, head: int) -> str:
    """The matrix of the same meaning on this board: of the head that is looked at, or of none."""
    root = _HEAD.sub("", name)
    candidates = (f"{root}{head}", root, name) if root != name else (name, f"{name}{head}")
    return next((one for one in candidates if one in board), "")


def _axes(board: Board, name: str, same: str) -> Axes:
    """What rows and columns of a picked matrix are, also where this board has no such matrix."""
    if same:
        return board[same].axes
    return ("query", "key") if _HEAD.sub("", name) in {"S", "D", "M", "A", "B"} else ("query", "dimension")


def _inside(board: Board, name: str, row: int, column: int) -> Cell:
    n_rows, n_columns = board[name].values.shape
    return Cell(name, min(row, n_rows - 1), min(column, n_columns - 1))
