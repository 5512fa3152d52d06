"""A blackboard of matrices, each made from others: pick a cell, see what it came from and what it goes to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float
from torch import Tensor

from .operations import DIGITS, START, Cells, Equation, Operation, is_exact, number, product, shown

MOST_DIGITS = 12
"""Decimals beyond which nobody computes by hand."""

NOISE = 1e-13
"""What float64 leaves of a sum that is 0."""

Axes = tuple[str, str]
"""What rows and columns are: `query`, `key`, `dimension`, or `` for neither."""

STATES: Axes = ("query", "dimension")
KEYS: Axes = ("key", "dimension")
SCORES: Axes = ("query", "key")
NUMBERS: Axes = ("query", "")
PARAMETERS: Axes = ("", "dimension")
"""Axes of states, of keys and values, of scores and weights, of one number a position, of a map's weights."""


@dataclass(frozen=True, eq=False)
class Matrix:
    r"""Numbers with a name, a LaTeX symbol, labelled rows and columns, and the operation that made them.

    `stage` says at which step of the lesson the matrix appears; `head` is None for what all heads share;
    `hidden` marks cells that a mask hides; `axes` says what rows and columns are, so that a cell can be followed from
    matrix to matrix.
    """

    name: str
    symbol: str
    stage: str
    values: Float[np.ndarray, "row column"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    operation: Operation = START
    head: int | None = None
    hidden: Cells | None = None
    axes: Axes = ("", "")


Highlight = dict[str, dict[str, Cells]]
"""What belongs to one picked cell, by relation and by matrix.

The relations are `sources` and `targets`, one step away, `furtherSources` and `furtherTargets`.
"""


class Board(dict[str, Matrix]):
    """Matrices by name, in the order in which they are made; an operation only looks back. It does not change."""

    @classmethod
    def of(cls, matrices: Iterable[Matrix]) -> "Board":
        """A board of `matrices`, which stand in the order of their making."""
        return cls((matrix.name, matrix) for matrix in matrices)

    @cached_property
    def known(self) -> dict[str, Float[np.ndarray, "row column"]]:
        """The numbers of all matrices, by name."""
        return {name: matrix.values for name, matrix in self.items()}

    def equation(self, name: str, row: int, column: int) -> Equation:
        r"""How one cell is worked out, with its numbers: `symbol[row,column] = ... = value`.

        Who works with the numbers as they are written comes to the result as it is written: where three decimals are
        too few for that, there are more. A rounded number stands after an approximation sign. `recomputed` is NaN for a
        number that is given.
        """
        matrix = self[name]
        value = float(matrix.values[row, column])
        left = rf"{matrix.symbol}[{row},{column}]"
        worked = matrix.operation.equation(row, column, self.known)
        result = 0.0 if abs(value) < NOISE else value
        equals = "=" if result == value and is_exact(result) else r"\approx"
        if not worked.latex:
            return replace(worked, latex=f"{left} {equals} {number(result)}", total=value)
        digits = DIGITS
        while digits < MOST_DIGITS and not _rounds_to(worked.recomputed, result):
            digits += 1
            worked = matrix.operation.equation(row, column, self.known, digits)
        first = "=" if worked.exact else r"\approx"
        end = "" if worked.latex == number(result) else f" {equals} {number(result)}"
        return replace(worked, latex=f"{left} {first} {worked.latex}{end}")

    def formulas(self, name: str) -> tuple[str, ...]:
        """How a matrix is made, in LaTeX: its own formula, then those of what it uses; none for one that is given."""
        matrix = self[name]
        return matrix.operation.formulas(matrix.symbol, lambda other: self[other].symbol, self.known)

    def highlight(self, name: str, row: int, column: int) -> Highlight:
        """Everything that the cell came from and everything that it goes to."""
        matrix = self[name]
        picked = np.zeros(matrix.values.shape, dtype=bool)
        picked[row, column] = True
        sources = {one: cells for one, cells in matrix.operation.back(picked, self.known).items() if cells.any()}
        back, ahead, targets = {name: picked}, {name: picked}, {}
        for one in reversed(self):
            if one in back:
                for operand, cells in self[one].operation.back(back[one], self.known).items():
                    back[operand] = back.get(operand, False) | cells
        for one, other in self.items():
            for operand in dict.fromkeys(other.operation.operands):
                if operand in ahead:
                    cells = other.operation.ahead(operand, ahead[operand], self.known, other.values.shape)
                    ahead[one] = ahead.get(one, False) | cells
                    if operand == name and cells.any():
                        targets[one] = cells
        further = {"furtherSources": _beyond(back, sources, name), "furtherTargets": _beyond(ahead, targets, name)}
        return {"sources": sources, "targets": targets, **further}


def _beyond(everything: Mapping[str, Cells], near: Mapping[str, Cells], start: str) -> dict[str, Cells]:
    """The cells of all matrices but the start that are not near."""
    far = {name: cells & ~near[name] if name in near else cells for name, cells in everything.items() if name != start}
    return {name: cells for name, cells in far.items() if cells.any()}


def _rounds_to(found: float, result: float) -> bool:
    """Whether `found` is the result as it is written: equal, or nearer than half of the last digit."""
    if not np.isfinite(found) or not np.isfinite(result):
        return True
    size = abs(shown(result))
    scientific = size != 0 and not 0.5 * 10**-DIGITS <= size < 1e6
    half = 0.5 * 10.0 ** (np.floor(np.log10(size)) + 1 - DIGITS if scientific else -DIGITS)
    return bool(abs(found - shown(result)) <= half * 1.000001)


def plain(x: Tensor) -> Float[np.ndarray, "row column"]:
    """A matrix of its own as NumPy; of a batch, the only element."""
    return (x[0] if x.dim() == 3 else x).detach().numpy().copy()


def dimensions(n: int) -> tuple[str, ...]:
    """Labels 0 to n - 1, as dimensions count."""
    return tuple(map(str, range(n)))


def matrix(
    name: str,
    symbol: str,
    stage: str,
    values: Tensor,
    rows: Sequence[str] | None = None,
    operation: Operation = START,
    axes: Axes = STATES,
    columns: Sequence[str] | None = None,
    head: int | None = None,
    hidden: Cells | None = None,
) -> Matrix:
    """A matrix of a tensor, whose rows and columns are numbered where they have no labels; a vector is a row."""
    if values.dim() == 1:
        values, rows, axes = values[None], ("",), ("", axes[1])
    numbers = plain(values)
    labels = dimensions(numbers.shape[0]) if rows is None else tuple(rows)
    across = dimensions(numbers.shape[1]) if columns is None else tuple(columns)
    return Matrix(name, symbol, stage, numbers, labels, across, operation, head, hidden, axes)


def column(name: str, symbol: str, stage: str, values: Tensor, rows: Sequence[str], operation: Operation) -> Matrix:
    """One number a position."""
    return matrix(name, symbol, stage, values[:, None], rows, operation, NUMBERS, columns=("",))


def linear(
    name: str,
    symbol: str,
    stage: str,
    values: Tensor,
    rows: Sequence[str],
    operand: str,
    weight: Tensor,
    bias: Tensor | None,
    letter: str = "",
    axes: Axes = STATES,
    head: int | None = None,
) -> Iterator[Matrix]:
    """The weight and the bias of a linear map (W and b with its letter, at first its name), and what it makes."""
    letter, shift = letter or name, None if bias is None else f"b_{name}"
    yield matrix(f"W_{name}", f"W^{letter}", stage, weight.T, axes=PARAMETERS, head=head)
    if bias is not None:
        yield matrix(f"b_{name}", f"b^{letter}", stage, bias, head=head)
    yield matrix(name, symbol, stage, values, rows, product(operand, f"W_{name}", bias=shift), axes, head=head)
