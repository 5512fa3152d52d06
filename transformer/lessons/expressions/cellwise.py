"""Operations in which a cell comes from single cells: sum, scale, mask, dropout, concatenation."""

from dataclasses import dataclass, field

import numpy as np

from transformer.lessons.expressions.operations import (
    DIGITS,
    Cells,
    Equation,
    Known,
    SymbolOf,
    cases,
    number,
    upright,
    worked,
)
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

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The two numbers and their sum."""
        parts = np.array([known[name][row, column] for name in self.operands])
        terms = tuple((name, float(part)) for name, part in zip(self.operands, parts, strict=True))
        latex = " + ".join(number(part, brackets=i > 0, digits=digits) for i, part in enumerate(parts))
        return worked(latex, terms, np.sum, parts, digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The sum of the matrices."""
        return (f"{left} = {' + '.join(map(symbol, self.operands))}",)


@dataclass(frozen=True)
class Scale(_CellByCell):
    r"""Multiply every cell by one factor, or divide it by one.

    `written` is that number in LaTeX, such as `\sqrt{4}`; `letters` writes it with letters, such as `\sqrt{d}`, and
    `where` says what they stand for. Without `written` the cells stay as they are.
    """

    factor: float = 1.0
    written: str = ""
    divided: bool = False
    letters: str = ""
    where: tuple[str, ...] = ()

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The number, the factor, the product."""
        value = np.array([known[self.operands[0]][row, column]])
        latex = self._scaled(number(value[0], digits=digits), self.written, number(value[0], True, digits))
        term = float(value[0] * self.factor)
        return worked(latex, ((self.operands[0], term),), lambda x: x[0] * self.factor, value, digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The matrix times or through the factor, and what its letters stand for."""
        of = symbol(self.operands[0])
        return (r" \qquad ".join([f"{left} = {self._scaled(of, self.letters, of)}", *self.where]),)

    def _scaled(self, value: str, factor: str, bracketed: str) -> str:
        if not self.written:
            return value
        return rf"\frac{{{value}}}{{{factor}}}" if self.divided else rf"{factor} \cdot {bracketed}"


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

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The score where it is visible, the fill where it is hidden."""
        hidden = not self.visible[row, column]
        value = self.fill if hidden else float(known[self.operands[0]][row, column])
        name = words("lesson_term_hidden") if hidden else self.operands[0]
        return worked(number(value, digits=digits), ((name, value),), np.sum, np.array([value]), digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The score and the fill, and where each stands; the score alone where nothing is hidden."""
        of = symbol(self.operands[0])
        if self.visible.all():
            return (f"{left} = {of}",)
        visible, hidden = upright("lesson_where_visible", query="i", key="j"), upright("lesson_where_hidden")
        return (cases(left, (f"{of}[i,j]", visible), (number(self.fill), hidden)),)


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

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """0 where it was dropped; otherwise the weight, grown."""
        value = float(known[self.operands[0]][row, column])
        text = number(value, digits=digits)
        if not self.kept[row, column]:
            return Equation(rf"0 \cdot {text}", ((words("lesson_term_dropped"), 0.0),), 0.0, 0.0, exact=True)
        latex, term = rf"\frac{{{text}}}{{1 - {number(self.p)}}}", (self.operands[0], value / (1 - self.p))
        return worked(latex, (term,), lambda x: x[0] / (1 - self.p), np.array([value]), digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The weight, grown, and where it became 0."""
        grown = rf"\frac{{{symbol(self.operands[0])}[i,j]}}{{1 - p}}"
        found = cases(left, (grown, upright("lesson_where_kept")), ("0", upright("lesson_where_dropped")))
        return (rf"{found} \qquad p = {number(self.p)}",)


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

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The cell that was copied."""
        for name in self.operands:
            width = known[name].shape[1]
            if column < width:
                value = float(known[name][row, column])
                return worked(number(value, digits=digits), ((name, value),), np.sum, np.array([value]), digits)
            column -= width
        raise IndexError(f"column {column} lies past the last operand")

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The matrices beside each other."""
        return (f"{left} = [{', '.join(map(symbol, self.operands))}]",)
