"""How one matrix comes from others: for any cell, where it came from, where it goes, and its equation with numbers.

An operation never makes the values: the library's layers do. It only knows which cells meet in which, so its
equation can be held against the value that the layer gave.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from transformer.messages import words

Values = Float[np.ndarray, "_row _column"]
Cells = Bool[np.ndarray, "_row _column"]
Known = Mapping[str, Values]
"""The values of every matrix made so far, by name."""


@dataclass(frozen=True)
class Equation:
    """One cell worked out: LaTeX with its numbers (for an `aligned` block), every term, and what the terms come to."""

    latex: str
    terms: tuple[tuple[str, float], ...]
    total: float


@runtime_checkable
class Operation(Protocol):
    """What a matrix knows about its making."""

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the matrices that it is made from."""

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """For each operand, the cells that meet in any of `cells`."""

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The cells of the result (of that shape) that any of the operand's `cells` goes to."""

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """How one cell is worked out."""


@dataclass(frozen=True)
class Given:
    """A starting point: embeddings, parameters, or what an earlier layer handed on."""

    operands: tuple[str, ...] = ()

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """Nothing: it starts here."""
        return {}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """Nothing leads here."""
        return np.zeros(shape, dtype=bool)

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """There is nothing to work out; `Board.equation` writes the value alone."""
        return Equation("", (), float("nan"))


def number(value: float, brackets: bool = False) -> str:
    """A number as an equation shows it: three decimals at most; negative ones in brackets where a sign would clash."""
    value = float(value)
    if np.isnan(value):
        return rf"\text{{{words('lesson_undefined')}}}"
    if np.isinf(value):
        return r"-\infty" if value < 0 else r"\infty"
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 5e-4):
        mantissa, exponent = f"{value:.2e}".split("e")
        text = rf"{mantissa.rstrip('0').rstrip('.')} \cdot 10^{{{int(exponent)}}}"
    else:
        text = f"{value:.3f}".rstrip("0").rstrip(".")
    return f"({text})" if brackets and value < 0 else text
