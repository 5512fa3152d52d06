"""Matrices side by side: pick a cell, and all that it came from and all that it goes to lights up in every one."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8

from heedmap.lessons.board import Board
from heedmap.lessons.operations import Cells
from heedmap.messages import words
from heedmap.plots.canvas.views import About
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
    """
    if hint is None:
        hint = words("component_pick_hint") if on_pick else ""
    described = [
        {
            "name": name, "symbol": readable(board[name].symbol), "title": (titles or {}).get(name, ""),
            "rows": list(board[name].rows), "columns": list(board[name].columns),
            "sentences": notes[name].sentences if notes and name in notes else [],
            "weights": name in weights, "mask": name in masks, "asked": name in asked,
            "narrow": name in masks and len(names) >= MANY,
        }
        for name in names
    ]  # fmt: skip

    component(
        key=key,
        header={
            "matrices": described, "hint": hint, "outline": outline, "file_name": file_name, "elided": elided,
            "about": about or About(),
        },
        arrays=_arrays(board, names, notes or {}, outlined or {}),
        options={**options(board, names, selected), "example": example},
        events={"picked": on_pick and (lambda value: on_pick(_cell(value, board)))},
    )  # fmt: skip


def options(board: Board, names: Sequence[str], selected: Cell | None) -> dict[str, Any]:
    """What is lit: the picked cell, and per matrix one bit a cell (base64) for each of the four relations."""
    if selected is None:
        return {"selected": None, "lit": {}}
    light = board.highlight(selected.matrix, selected.row, selected.column)
    lit = {
        relation: {name: _bits(cells) for name, cells in found.items() if name in names}
        for relation, found in light.items()
    }
    return {"selected": [selected.matrix, selected.row, selected.column], "lit": lit}


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
        case {"matrix": str(name), "row": int(row), "column": int(column)} if name in board:
            n_rows, n_columns = board[name].values.shape
            return Cell(name, row, column) if 0 <= row < n_rows and 0 <= column < n_columns else None
        case _:
            return None


_PLAIN = (
    (r"(?<= )\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1"),
    (r"\\(begin|end)\{cases\}", ""),
    (r"\\text\{([^{}]*)\}", r"\1"),
    (r"\\underbrace\{\\cdots\}_\{\d+\}", "…"),
    (r"\\\\", ";"),
    (r"\^\\top", "ᵀ"),
    (r"&", " "),
    (r"\\hat (\w)", "\\1\u0302"),
    (r"\\tilde (\w)", "\\1\u0303"),
    (r"\\(?:,|quad|enspace)", " "),
    (r"\\(?:!|left|right)(?![a-z])", ""),
    (r"\\mathrm\{([^{}]*)\}", r"\1"),
    (r"\\wedge", "∧"),
    (r"\\le\b", "≤"),
    (r"\\bar (\w)", "\\1\u0304"),
    (r"\\big/", "/"),
    (r"\\cdot", "·"),
    (r",? *\\qquad", ","),
    (r"\\approx", "≈"),
    (r"\\infty", "∞"),
    (r"\\sum_", "Σ_"),
    (r"\\max_k", "max_k"),
    (r"\\(max|ln|log)", r"\1"),
    (r"\\operatorname\{erf\}", "erf"),
    (r"\\mathbf\{1\}", "1"),
    (r"\\ell", "\N{SCRIPT SMALL L}"),
    (r"\\(tanh|cos)", r"\1"),
    (r"\\gamma", "\N{GREEK SMALL LETTER GAMMA}"),
    (r"\\beta", "β"),
    (r"\\mu", "μ"),
    (r"\\sigma", "\N{GREEK SMALL LETTER SIGMA}"),
    (r"\\epsilon", "ε"),
    (r"\\delta", "δ"),
    (r"\\Delta", "Δ"),
    (r"\\rho", "\N{GREEK SMALL LETTER RHO}"),
    (r"\\Sigma", "Σ"),
    (r"\\Omega", "Ω"),
    (r"\^2", "²"),
)
"""What stands for what, in this order."""

_FRACTION = re.compile(r"\\frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}")
_ROOT = re.compile(r"\\sqrt\{((?:[^{}]|\{[^{}]*\})*)\}")


def readable(latex: str) -> str:
    """A symbol, a formula or an equation in plain characters; `_` and `^` stay, and mark what is set lower or higher.

    `W^Q_0` stays as it is, a fraction becomes `S_0 / √2`, or `S_0 / (0.5 · √2)`.
    """
    text = latex
    for found, written in _PLAIN:
        text = re.sub(found, written, text)
    while (simpler := _FRACTION.sub(_fraction, _ROOT.sub(_root, text))) != text:
        text = simpler
    return " ".join(re.sub(r"\{([^{}]*)\}", r"(\1)", text).split())


def _fraction(found: re.Match[str]) -> str:
    above, below = (f"({part})" if re.search(r" [-+·] ", part) else part for part in found.groups())
    return f"{above} / {below}"


def _root(found: re.Match[str]) -> str:
    return f"√{found[1]}" if re.fullmatch(r"[\w.]+", found[1]) else f"√({found[1]})"
