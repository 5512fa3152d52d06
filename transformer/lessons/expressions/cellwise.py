"""Operations in which a cell comes from single cells: sum, scale, mask, dropout, concatenation."""

from dataclasses import dataclass, field

import numpy as np

from transformer.lessons.expressions.operations import Cells, Equation, Known, number
from transformer.messages import words


@dataclass(frozen=True)
class _CellByCell:
    """Operations in which a cell comes from the same cell of each operand."""

    operands: tuple[str, ...]

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """The same cells of each operand."""
        return dict.fromkeys(self.operands, cells)

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The same cells of the result."""
        return cells


@dataclass(frozen=True)
class Sum(_CellByCell):
    """Add two matrices cell by cell."""

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """The two numbers and their sum."""
        parts = [float(known[name][row, column]) for name in self.operands]
        terms = tuple((name, part) for name, part in zip(self.operands, parts, strict=True))
        return Equation(" + ".join(number(part, brackets=i > 0) for i, part in enumerate(parts)), terms, sum(parts))


@dataclass(frozen=True)
class Scale(_CellByCell):
    r"""Multiply every cell by one factor; `written` is its LaTeX, such as `\sqrt{4}`."""

    factor: float = 1.0
    written: str = ""
    divided: bool = False

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """The number, the factor, the product."""
        value = float(known[self.operands[0]][row, column])
        if self.divided:
            latex = rf"\frac{{{number(value)}}}{{{self.written}}}"
        else:
            latex = rf"{self.written} \times {number(value, brackets=True)}"
        return Equation(latex, ((self.operands[0], value * self.factor),), value * self.factor)


@dataclass(frozen=True)
class Hide(_CellByCell):
    """Replace the scores of hidden cells by a fill value (minus infinity, or a large negative number)."""

    visible: Cells = field(default_factory=lambda: np.ones((0, 0), dtype=bool))
    fill: float = -np.inf

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """Visible cells only: a hidden score goes nowhere."""
        return {self.operands[0]: cells & self.visible}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """Visible cells only."""
        return cells & self.visible

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """The score where it is visible, the fill where it is hidden."""
        if not self.visible[row, column]:
            return Equation(number(self.fill), ((words("lesson_term_hidden"), self.fill),), self.fill)
        value = float(known[self.operands[0]][row, column])
        return Equation(number(value), ((self.operands[0], value),), value)


@dataclass(frozen=True)
class Drop(_CellByCell):
    """Dropout: some cells become 0, the others grow by 1 / (1 - p)."""

    kept: Cells = field(default_factory=lambda: np.ones((0, 0), dtype=bool))
    p: float = 0.0

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """Kept cells only."""
        return {self.operands[0]: cells & self.kept}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """Kept cells only."""
        return cells & self.kept

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """0 where it was dropped; otherwise the weight, grown."""
        value = float(known[self.operands[0]][row, column])
        if not self.kept[row, column]:
            return Equation(rf"0 \times {number(value)}", ((words("lesson_term_dropped"), 0.0),), 0.0)
        total = value / (1 - self.p)
        return Equation(rf"\frac{{{number(value)}}}{{1 - {number(self.p)}}}", ((self.operands[0], total),), total)


@dataclass(frozen=True)
class Concatenate:
    """Put matrices side by side."""

    operands: tuple[str, ...]

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """Each column belongs to one operand."""
        edges = np.cumsum([known[name].shape[1] for name in self.operands])[:-1]
        return dict(zip(self.operands, np.split(cells, edges, axis=1), strict=True))

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The same cells, moved right by what stands before."""
        parts = [cells if name == operand else np.zeros(known[name].shape, dtype=bool) for name in self.operands]
        return np.concatenate(parts, axis=1)

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """The cell that was copied."""
        for name in self.operands:
            width = known[name].shape[1]
            if column < width:
                value = float(known[name][row, column])
                return Equation(number(value), ((name, value),), value)
            column -= width
        raise IndexError(f"column {column} lies past the last operand")
