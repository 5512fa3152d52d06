"""How one matrix comes from others: its formula; for any cell where it came from, where it goes, and its equation.

An operation never makes the values: the library's layers do. It only knows which cells meet in which, so its formula
and its equations can be held against the values that the layer gave.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from transformer.messages import words

Values = Float[np.ndarray, "_row _column"]
Factors = Float[np.ndarray, "_factor"]
"""The numbers that one cell is worked out from."""

Cells = Bool[np.ndarray, "_row _column"]
Known = Mapping[str, Values]
"""The values of every matrix made so far, by name."""

SymbolOf = Callable[[str], str]
"""The LaTeX symbol of a matrix, by its name."""

DIGITS = 3
"""Decimals that a number shows where nothing asks for more."""


@dataclass(frozen=True)
class Equation:
    """One cell worked out: LaTeX with its numbers (for an `aligned` block), every term, and what the terms come to.

    `recomputed` is what the numbers come to as they are written, and `exact` whether they are written with all their
    digits; sums too long to be written out count with all their terms.
    """

    latex: str
    terms: tuple[tuple[str, float], ...]
    total: float
    recomputed: float
    exact: bool


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

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """How one cell is worked out, its numbers written with so many decimals."""

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """How the whole matrix, called `left`, is made; further formulas define what the first one uses.

        In `A[i,j]` rows and columns are named, and `b[j]` is a single row; without brackets matrices are meant.
        Values of letters follow their formula after a wide space.
        """


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

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """There is nothing to work out; `Board.equation` writes the value alone."""
        return Equation("", (), float("nan"), float("nan"), exact=True)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """There is none."""
        return ()


def rows_of(cells: Cells) -> Bool[np.ndarray, " row"]:
    """Which rows hold one of the cells."""
    return np.asarray(cells.any(axis=1))


def columns_of(cells: Cells) -> Bool[np.ndarray, " column"]:
    """Which columns hold one of the cells."""
    return np.asarray(cells.any(axis=0))


def number(value: float, brackets: bool = False, digits: int = DIGITS) -> str:
    """A number as an equation shows it: with `digits` decimals at most; `brackets` stand around a negative one."""
    value = float(value)
    if np.isnan(value):
        return rf"\text{{{words('lesson_undefined')}}}"
    if np.isinf(value):
        return r"-\infty" if value < 0 else r"\infty"
    text = _written(value, digits)
    if "e" in text:
        mantissa, exponent = text.split("e")
        sign = "-" if mantissa == "-1" else ""
        text = sign if mantissa in {"1", "-1"} else rf"{mantissa} \cdot "
        text += rf"10^{{{int(exponent)}}}"
    return f"({text})" if brackets and value < 0 else text


def shown(value: float, digits: int = DIGITS) -> float:
    """The number that `number` writes: `value`, rounded."""
    return float(_written(float(value), digits)) if np.isfinite(value) else float(value)


def is_exact(value: float, digits: int = DIGITS) -> bool:
    """Whether `number` writes all digits, but for what is lost in computing."""
    if not np.isfinite(value):
        return True
    return bool(abs(shown(value, digits) - value) <= 1e-9 * abs(value))


def worked(
    latex: str, terms: tuple[tuple[str, float], ...], work: Callable[[Factors], float], factors: Factors, digits: int
) -> Equation:
    """An equation whose result is `work(factors)`, with the factors as they are and as they are written."""
    rounded = np.array([shown(factor, digits) for factor in factors])
    exact = all(is_exact(factor, digits) for factor in factors)
    return Equation(latex, terms, float(work(factors)), float(work(rounded)), exact)


def cases(left: str, *rows: tuple[str, str]) -> str:
    r"""What cell i, j of `left` is in each of several cases: a value, and the text that says when."""
    written = r" \\ ".join(rf"{value} & {when}" for value, when in rows)
    return rf"{left}[i,j] = \begin{{cases}} {written} \end{{cases}}"


def upright(code: str, **symbols: str) -> str:
    """A text of the catalogue as a part of a formula; its fields are symbols, written as in formulas."""
    outside = {name: rf"}}{symbol}\text{{" for name, symbol in symbols.items()}
    return rf"\text{{{words(code, **outside)}}}".replace(r"\text{}", "")


def _written(value: float, digits: int) -> str:
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 0.5 * 10**-digits):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")
