"""Operations that a template writes: a cell from one cell of each operand, or one number from a whole row."""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from typing import Literal

import numpy as np

from transformer.lessons.expressions.operations import (
    DIGITS,
    Cells,
    Equation,
    Factors,
    Known,
    SymbolOf,
    columns_of,
    number,
    rows_of,
    worked,
)

Role = Literal["cell", "row", "column", "one"]
"""What a cell takes of an operand: the same cell, the one number of its row or of its column, or the only number."""

TERMS_SHOWN = 4
"""Numbers of a row that an equation writes out before it goes on with dots."""

_INDEX: dict[Role, str] = {"cell": "[i,j]", "row": "[i]", "column": "[j]", "one": ""}
_LETTERS = "abc"


@dataclass(frozen=True)
class Cellwise:
    r"""A cell from one cell of each operand, by a formula that `template` writes.

    `{a}`, `{b}`, `{c}` are the operands in order; as capitals they stand in brackets where they are negative. `{eps}`
    is the one constant: $\epsilon$ in the formula, its number in an equation.
    """

    operands: tuple[str, ...]
    roles: tuple[Role, ...]
    template: str
    work: Callable[[Factors], float]
    eps: float | None = None

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """The cells of each operand that are taken."""
        rows, columns = rows_of(cells)[:, None], columns_of(cells)[None]
        found = {"cell": cells, "row": rows, "column": columns, "one": np.full((1, 1), cells.any())}
        return {name: found[role] for name, role in zip(self.operands, self.roles, strict=True)}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """Every cell that takes one of the operand's."""
        return np.broadcast_to(cells, shape).copy()

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The formula with the numbers of one cell."""
        at = {"cell": (row, column), "row": (row, 0), "column": (0, column), "one": (0, 0)}
        parts = np.array([known[name][at[role]] for name, role in zip(self.operands, self.roles, strict=True)])
        terms = ((", ".join(self.operands), float(self.work(parts))),)
        written = dict(zip(_LETTERS, (number(part, digits=digits) for part in parts), strict=False))
        written |= dict(zip(_LETTERS.upper(), (number(part, True, digits) for part in parts), strict=False))
        return worked(self._filled(written, number(self.eps or 0.0)), terms, self.work, parts, digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The formula with names, and what its constant is."""
        named = [f"{symbol(name)}{_INDEX[role]}" for name, role in zip(self.operands, self.roles, strict=True)]
        written = dict(zip(_LETTERS, named, strict=False)) | dict(zip(_LETTERS.upper(), named, strict=False))
        index = "[i]" if set(self.roles) <= {"row", "one"} else "[i,j]"
        found = f"{left}{index} = {self._filled(written, chr(92) + 'epsilon')}"
        return (found if self.eps is None else rf"{found} \qquad \epsilon = {number(self.eps)}",)

    def _filled(self, written: dict[str, str], eps: str) -> str:
        return self.template.format(**written, eps=eps)


@dataclass(frozen=True)
class OverRow:
    r"""One number from a whole row, by a formula that `template` writes; what has no row of its own is added last.

    In `template` `{x}` is the cell of dimension k, and `{n}` the number that is divided by: the row's length without
    `less`. `each` is what an equation writes of a cell, `written` how (`{a}`, `{A}` in brackets where it is negative),
    and `around` what stands around these.
    """

    operand: str
    template: str
    work: Callable[[Factors], float]
    around: str
    written: str = "{a}"
    joined: str = " + "
    each: Callable[[float], float] = float
    less: int = 0
    rest: str | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """The matrix, and what is added to its rows."""
        return (self.operand,) if self.rest is None else (self.operand, self.rest)

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """Whole rows, and what is added to them."""
        rows = rows_of(cells)[:, None]
        found = {self.operand: np.repeat(rows, known[self.operand].shape[1], axis=1)}
        return found if self.rest is None else {**found, self.rest: np.full((1, 1), rows.any())}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The number of the row; of all rows for what is added to each."""
        return np.broadcast_to(cells.any(axis=1, keepdims=True), shape).copy()

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The row's first numbers, and dots for the others."""
        values = known[self.operand][row]
        rest = np.zeros(0) if self.rest is None else known[self.rest][0]
        shown = [self.each(value) for value in values[:TERMS_SHOWN]]
        parts = [
            self.written.format(a=number(value, i > 0, digits), A=number(value, True, digits))
            for i, value in enumerate(shown)
        ]
        if len(values) > TERMS_SHOWN:
            parts.append(rf"\underbrace{{\cdots}}_{{{len(values) - TERMS_SHOWN}}}")
        latex = self.around.format(terms=self.joined.join(parts), n=len(values) - self.less)
        terms = [(str(i), self.each(value)) for i, value in enumerate(values)]
        if self.rest is not None:
            latex += f" + {number(rest[0], True, digits)}"
            terms.append((self.rest, float(rest[0])))

        def work(factors: Factors) -> float:
            return self.work(factors[: len(values)]) + float(factors[len(values) :].sum())

        return worked(latex, tuple(terms), work, np.concatenate([values, rest]), digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The formula with names."""
        n = known[self.operand].shape[1] - self.less
        found = self.template.format(x=f"{symbol(self.operand)}[i,k]", n=n)
        return (f"{left}[i] = {found}{'' if self.rest is None else f' + {symbol(self.rest)}'}",)


def mean(operand: str) -> OverRow:
    """The mean of each row."""
    return OverRow(operand, r"\frac{{1}}{{{n}}} \sum_k {x}", lambda x: float(x.mean()), r"\frac{{{terms}}}{{{n}}}")


def mean_square(operand: str, unbiased: bool = False) -> OverRow:
    """The mean of the squares of each row: of a centred one its variance, divided by n or (`unbiased`) by n - 1."""
    less = int(unbiased)
    return OverRow(
        operand, r"\frac{{1}}{{{n}}} \sum_k {x}^2", lambda x: float((x**2).sum() / (len(x) - less)),
        r"\frac{{{terms}}}{{{n}}}", written="{A}^2", less=less,
    )  # fmt: skip


def length(operand: str) -> OverRow:
    """The Euclidean length of each row."""
    return OverRow(
        operand, r"\sqrt{{\sum_k {x}^2}}", lambda x: float(np.sqrt((x**2).sum())), r"\sqrt{{{terms}}}",
        written="{A}^2",
    )  # fmt: skip


def largest(operand: str) -> OverRow:
    """The largest number of each row."""
    return OverRow(operand, r"\max_k {x}", lambda x: float(x.max()), r"\max({terms})", joined=", ")


def total(operand: str, rest: str | None = None) -> OverRow:
    """The sum of each row, and of `rest`, which is not in it."""
    return OverRow(operand, r"\sum_k {x}", lambda x: float(x.sum()), "{terms}", rest=rest)


def share_above_zero(operand: str) -> OverRow:
    """The share of each row's numbers that are above 0."""
    return OverRow(
        operand, r"\frac{{1}}{{{n}}} \sum_k \mathbf{{1}}({x} > 0)", lambda x: float((x > 0).mean()),
        r"\frac{{{terms}}}{{{n}}}", each=lambda x: float(x > 0),
    )  # fmt: skip


def share_of(part: str, rest: str, squared: bool = False) -> Cellwise:
    """What part of two numbers of a row (of their squares) the first one is."""
    square = "^2" if squared else ""
    power = 2 if squared else 1
    return Cellwise(
        (part, rest), ("row", "row"), rf"\frac{{{{{{a}}{square}}}}}{{{{{{a}}{square} + {{b}}{square}}}}}",
        lambda x: float(x[0] ** power / (x[0] ** power + x[1] ** power)),
    )  # fmt: skip


def less(operand: str, other: str, role: Role) -> Cellwise:
    """A matrix, and from each of its cells another number is taken."""
    return Cellwise((operand, other), ("cell", role), "{a} - {B}", lambda x: float(x[0] - x[1]))


def through(operand: str, other: str, role: Role) -> Cellwise:
    """A matrix, each of whose cells is divided by another number."""
    return Cellwise((operand, other), ("cell", role), r"\frac{{{a}}}{{{b}}}", lambda x: float(x[0] / x[1]))


def root(operand: str, eps: float, outside: bool) -> Cellwise:
    """The root of a row's number, with `eps` added to it, or under the root."""
    if outside:
        return Cellwise((operand,), ("row",), r"\sqrt{{{a}}} + {eps}", lambda x: float(np.sqrt(x[0]) + eps), eps)
    return Cellwise((operand,), ("row",), r"\sqrt{{{a} + {eps}}}", lambda x: float(np.sqrt(x[0] + eps)), eps)


def fitted(operand: str, gain: str, shift: str | None) -> Cellwise:
    """Gain times a cell, plus shift: each column has its own."""
    if shift is None:
        return Cellwise((gain, operand), ("column", "cell"), r"{a} \cdot {B}", lambda x: float(x[0] * x[1]))
    return Cellwise(
        (gain, operand, shift), ("column", "cell", "column"), r"{a} \cdot {B} + {C}",
        lambda x: float(x[0] * x[1] + x[2]),
    )  # fmt: skip


def bent(operand: str, activation: str) -> Cellwise:
    """ReLU, SiLU or GELU (exact, or by a hyperbolic tangent as GPT-2 has it) of each cell."""
    if activation == "silu":
        return Cellwise(
            (operand,), ("cell",), r"\frac{{{a}}}{{1 + e^{{-{A}}}}}", lambda x: float(x[0] / (1 + np.exp(-x[0])))
        )
    if activation == "gelu_tanh":
        inside = r"0.7978845608 \cdot ({a} + 0.044715 \cdot {A}^2 \cdot {A})"  # the root of 2 / pi
        return Cellwise(
            (operand,), ("cell",), rf"\frac{{{{{{a}}}}}}{{{{2}}}} \cdot (1 + \tanh({inside}))",
            lambda x: float(x[0] / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x[0] + 0.044715 * x[0] ** 3)))),
        )  # fmt: skip
    if activation == "gelu":
        return Cellwise(
            (operand,), ("cell",),
            r"\frac{{{a}}}{{2}} \cdot (1 + \operatorname{{erf}}(\frac{{{a}}}{{\sqrt{{2}}}}))",
            lambda x: float(x[0] / 2 * (1 + erf(x[0] / np.sqrt(2)))),
        )  # fmt: skip
    return Cellwise((operand,), ("cell",), r"\max(0, {a})", lambda x: float(max(0.0, x[0])))


def exponential(operand: str) -> Cellwise:
    """e to the power of each cell."""
    return Cellwise((operand,), ("cell",), "e^{{{a}}}", lambda x: float(np.exp(x[0])))


def less_logarithm(operand: str, of: str) -> Cellwise:
    """A matrix, and from each of its cells the logarithm of its row's number is taken."""
    return Cellwise((operand, of), ("cell", "row"), r"{a} - \ln({b})", lambda x: float(x[0] - np.log(x[1])))
