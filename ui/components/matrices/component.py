"""Matrices side by side: pick a cell, and all that it came from and all that it goes to lights up in every one."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8

from transformer.lessons.expressions.board import Board, Highlight
from transformer.lessons.expressions.operations import Cells
from transformer.messages import words
from transformer.plots.canvas.about import About
from ui.components.matrices.readable import readable
from ui.components.shared.mounting import CanvasComponent

component = CanvasComponent("matrices")


@dataclass(frozen=True)
class Cell:
    """One cell of one matrix; row and column count from 0."""

    matrix: str
    row: int
    column: int


MANY = 6
"""So many masks have narrow cells, which 0, 1 and minus infinity fit into: more of them stand beside each other."""


@dataclass(frozen=True)
class Notes:
    """What hovering over a cell says: `sentences[codes[row, column]]`, with {row}, {column} and their labels put in.

    A sentence may hold `{row}` and `{column}` (counted from 1), `{row_label}` and `{column_label}`.
    """

    codes: UInt8[np.ndarray, "row column"]
    sentences: tuple[str, ...]


def matrices(
    board: Board,
    names: Sequence[str],
    selected: Cell | None,
    *,
    key: str,
    weights: Sequence[str] = (),
    masks: Sequence[str] = (),
    asked: Sequence[str] = (),
    titles: Mapping[str, str] | None = None,
    hint: str | None = None,
    notes: Mapping[str, Notes] | None = None,
    outlined: Mapping[str, Cells] | None = None,
    outline: str = "",
    file_name: str = "matrices",
    about: About | None = None,
    example: bool = False,
    elided: bool = False,
    on_pick: Callable[[Cell | None], None] | None = None,
) -> None:
    """Draw the matrices called `names`; cells can be picked where `on_pick` is given.

    `weights` are drawn on the sequential scale from 0 to 1, `masks` in one colour for what is visible and one for
    what is hidden, `asked` as cells that a reader fills (NaN: a question mark, 0: empty, 0.5: filled, else its number);
    the others on a diverging scale, symmetric about 0, each up to its own largest number. `titles`
    names matrices in words, `hint` says what can be done with their cells (None: how to pick one, if that can be
    done), and `notes` says more about a matrix's cells when they are pointed at. True in `outlined` is a cell with a
    warning's outline, and `outline` says what that means. `on_pick` is called before the run that a pick starts, with
    None when the mark was taken away. With `example`, `selected` is one that nobody picked: it and what belongs to it
    is outlined, and nothing fades. Matrices that are too wide or tall for numbers leave out their middle if `elided`;
    otherwise they are colours alone. `about` is said in a saved picture.

    Raises:
        InputError: a name, or the selected cell, is not on the board.
    """
    if hint is None:
        hint = words("component_pick_hint") if on_pick else ""
    described = [
        _description(board, name, (titles or {}).get(name, ""), (notes or {}).get(name))
        | {"weights": name in weights, "mask": name in masks, "asked": name in asked}
        | {"narrow": name in masks and len(names) >= MANY}
        for name in names
    ]

    def pick(value: Any) -> None:
        if on_pick:
            on_pick(_cell(value, board))

    component(
        key=key,
        header={
            "matrices": described, "hint": hint, "outline": outline, "file_name": file_name, "elided": elided,
            "about": (about or About()).message(),
        },
        arrays=_arrays(board, names, notes or {}, outlined or {}),
        options={**options(board, names, selected), "example": example},
        events={"picked": pick if on_pick else None},
    )  # fmt: skip


def options(board: Board, names: Sequence[str], selected: Cell | None) -> dict[str, Any]:
    """What is lit: the picked cell, and per matrix one bit a cell (base64) for each of the four relations.

    Raises:
        InputError: the selected cell is not on the board.
    """
    if selected is None:
        return {"selected": None, "lit": {}}
    light: Highlight = board.highlight(selected.matrix, selected.row, selected.column)
    relations: dict[str, Mapping[str, Cells]] = {
        "sources": light.sources,
        "targets": light.targets,
        "furtherSources": light.further_sources,
        "furtherTargets": light.further_targets,
    }
    lit = {
        relation: {name: _bits(cells) for name, cells in found.items() if name in names}
        for relation, found in relations.items()
    }
    return {"selected": [selected.matrix, selected.row, selected.column], "lit": lit}


def _description(board: Board, name: str, title: str, notes: Notes | None) -> dict[str, Any]:
    matrix = board[name]
    return {
        "name": name,
        "symbol": readable(matrix.symbol),
        "title": title,
        "rows": list(matrix.rows),
        "columns": list(matrix.columns),
        "sentences": list(notes.sentences) if notes else [],
    }


def _arrays(
    board: Board, names: Sequence[str], notes: Mapping[str, Notes], outlined: Mapping[str, Cells]
) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        matrix = board[name]
        arrays[name] = matrix.values.astype(np.float32)
        if matrix.hidden is not None:
            arrays[f"{name}.hidden"] = np.packbits(matrix.hidden)
        if name in notes:
            arrays[f"{name}.codes"] = notes[name].codes
        if name in outlined:
            arrays[f"{name}.outlined"] = np.packbits(outlined[name])
    return arrays


def _bits(cells: Cells) -> str:
    return base64.b64encode(np.packbits(cells).tobytes()).decode("ascii")


def _cell(value: Any, board: Board) -> Cell | None:
    """The browser's event as a cell of this board; None for none, or for one of a board that is gone."""
    match value:
        case {"matrix": str(name), "row": int(row), "column": int(column)} if name in board.matrices:
            n_rows, n_columns = board[name].values.shape
            return Cell(name, row, column) if 0 <= row < n_rows and 0 <= column < n_columns else None
        case _:
            return None
