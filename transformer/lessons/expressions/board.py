"""A blackboard of matrices, each made from others: pick a cell, see what it came from and what it goes to."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float
from torch import Tensor

from transformer.errors import InputError
from transformer.lessons.expressions.operations import DIGITS, Cells, Equation, Operation, is_exact, number, shown

MOST_DIGITS = 12
"""Decimals beyond which nobody computes by hand."""

NOISE = 1e-13
"""What float64 leaves of a sum that is 0."""

Axes = tuple[str, str]
"""What rows and columns are: `query`, `key`, `dimension`, or `` for neither."""


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
    operation: Operation
    head: int | None = None
    hidden: Cells | None = None
    axes: Axes = ("", "")

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            labels = f"({len(self.rows)}, {len(self.columns)})"
            raise InputError("lesson_matrix_labels", name=self.name, shape=str(self.values.shape), labels=labels)


@dataclass(frozen=True, eq=False)
class Highlight:
    """What belongs to one picked cell, in every matrix: one step away, and further away."""

    sources: Mapping[str, Cells]
    targets: Mapping[str, Cells]
    further_sources: Mapping[str, Cells]
    further_targets: Mapping[str, Cells]


@dataclass(frozen=True, eq=False)
class Board(Mapping[str, Matrix]):
    """Matrices by name, in the order in which they are made; an operation only looks back."""

    matrices: dict[str, Matrix] = field(repr=False)

    @classmethod
    def of(cls, matrices: Iterable[Matrix]) -> "Board":
        """A board of `matrices`, which stand in the order of their making."""
        return cls({matrix.name: matrix for matrix in matrices})

    def __getitem__(self, name: str) -> Matrix:
        """The matrix called `name`.

        Raises:
            InputError: there is none.
        """
        if name not in self.matrices:
            raise InputError("lesson_matrix_not_on_board", name=name, names=tuple(self.matrices))
        return self.matrices[name]

    def __contains__(self, name: object) -> bool:
        return name in self.matrices

    def __iter__(self) -> Iterator[str]:
        return iter(self.matrices)

    def __len__(self) -> int:
        return len(self.matrices)

    @cached_property
    def known(self) -> dict[str, Float[np.ndarray, "row column"]]:
        """The numbers of all matrices, by name."""
        return {name: matrix.values for name, matrix in self.matrices.items()}

    def equation(self, name: str, row: int, column: int) -> Equation:
        r"""How one cell is worked out, with its numbers: `symbol[row,column] = ... = value`.

        Who works with the numbers as they are written comes to the result as it is written: where three decimals are
        too few for that, there are more. A rounded number stands after an approximation sign. `recomputed` is NaN for a
        number that is given.

        Raises:
            InputError: there is no such cell.
        """
        matrix = self._cell(name, row, column)
        value = float(matrix.values[row, column])
        left = rf"{matrix.symbol}[{row},{column}]"
        worked = matrix.operation.equation(row, column, self.known)
        result = 0.0 if abs(value) < NOISE else value
        equals = "=" if result == value and is_exact(result) else r"\approx"
        if not worked.terms:
            return replace(worked, latex=f"{left} {equals} {number(result)}", total=value)
        digits = DIGITS
        while digits < MOST_DIGITS and not _rounds_to(worked.recomputed, result):
            digits += 1
            worked = matrix.operation.equation(row, column, self.known, digits)
        first = "=" if worked.exact else r"\approx"
        end = "" if worked.latex == number(result) else f" {equals} {number(result)}"
        return replace(worked, latex=f"{left} {first} {worked.latex}{end}")

    def formulas(self, name: str) -> tuple[str, ...]:
        """How a matrix is made, in LaTeX, by the operation that its equations come from; none for one that is given.

        The first formula is the matrix's own, further ones define what it uses.
        """
        matrix = self[name]
        return matrix.operation.formulas(matrix.symbol, lambda other: self[other].symbol, self.known)

    def highlight(self, name: str, row: int, column: int) -> Highlight:
        """Everything that the cell came from and everything that it goes to.

        Raises:
            InputError: there is no such cell.
        """
        matrix = self._cell(name, row, column)
        picked = np.zeros(matrix.values.shape, dtype=bool)
        picked[row, column] = True
        sources, all_sources = self._back({name: picked}, only=name), self._back({name: picked})
        targets, all_targets = self._ahead({name: picked}, only=name), self._ahead({name: picked})
        return Highlight(sources, targets, _beyond(all_sources, sources), _beyond(all_targets, targets))

    def _back(self, found: dict[str, Cells], only: str | None = None) -> dict[str, Cells]:
        """Walk from the end to the start; with `only`, look behind that matrix and no further."""
        found = dict(found)
        start = set(found)
        for name in reversed(self.matrices):
            if name not in found or only not in {None, name}:
                continue
            for operand, cells in self.matrices[name].operation.back(found[name], self.known).items():
                found[operand] = found.get(operand, False) | cells
        return {name: cells for name, cells in found.items() if name not in start and bool(cells.any())}

    def _ahead(self, found: dict[str, Cells], only: str | None = None) -> dict[str, Cells]:
        """Walk from the start to the end; with `only`, look ahead of that matrix and no further."""
        found = dict(found)
        start = set(found)
        for name, matrix in self.matrices.items():
            for operand in dict.fromkeys(matrix.operation.operands):
                if operand in found and only in {None, operand}:
                    cells = matrix.operation.ahead(operand, found[operand], self.known, matrix.values.shape)
                    found[name] = found.get(name, False) | cells
        return {name: cells for name, cells in found.items() if name not in start and bool(cells.any())}

    def _cell(self, name: str, row: int, column: int) -> Matrix:
        matrix = self[name]
        n_rows, n_columns = matrix.values.shape
        if not (0 <= row < n_rows and 0 <= column < n_columns):
            raise InputError(
                "lesson_cell_not_in_matrix",
                name=name,
                row=row,
                column=column,
                last_row=n_rows - 1,
                last_column=n_columns - 1,
            )
        return matrix


def _beyond(everything: Mapping[str, Cells], near: Mapping[str, Cells]) -> dict[str, Cells]:
    far = {name: cells & ~near[name] if name in near else cells for name, cells in everything.items()}
    return {name: cells for name, cells in far.items() if bool(cells.any())}


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


def numbered(n: int) -> tuple[str, ...]:
    """Labels 1 to n."""
    return tuple(str(i + 1) for i in range(n))
