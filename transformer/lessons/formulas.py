"""Operations that a template of LaTeX writes: a cell from one cell of each operand, or one number from a whole row.

The same template gives the formula of a matrix and, with numbers, the equation of each of its cells.
"""

from collections.abc import Callable
from functools import partial
from math import erf
from typing import NamedTuple

import numpy as np

from .operations import NUMBERS_SHOWN, Equation, Operation, Role, Values, Work, dots, number, worked

_INDEX: dict[Role, str] = {"cell": "[i,j]", "row": "[i]", "column": "[j]", "one": ""}


class Constant(NamedTuple):
    """A constant of a formula: its number and its letters in LaTeX, and what these stand for."""

    written: str = ""
    letters: str = ""
    where: tuple[str, ...] = ()


NO_CONSTANT = Constant()


def cellwise(
    roles: tuple[Role, ...],
    template: str,
    work: Work,
    *operands: str,
    constant: Constant = NO_CONSTANT,
    whole: bool = False,
) -> Operation:
    r"""A cell from one cell of each operand, by a formula that `template` writes.

    `{a}`, `{b}`, `{c}` are the operands in order; as capitals they stand in brackets where they are negative.
    `{constant}` is the one constant. The formula of a `whole` matrix names matrices, and no cells.
    """

    def filled(small: list[str], capital: list[str], constant: str) -> str:
        written = dict(zip("abc", small, strict=False)) | dict(zip("ABC", capital, strict=False))
        return template.format(**written, constant=constant)

    def equate(of: list[Values], row: int, column: int, digits: int) -> Equation:
        at = {"cell": (row, column), "row": (row, 0), "column": (0, column), "one": (0, 0)}
        parts = np.array([values[at[role]] for values, role in zip(of, roles, strict=True)])
        plain, bracketed = ([number(part, brackets, digits) for part in parts] for brackets in (False, True))
        return worked(filled(plain, bracketed, constant.written), work, parts, digits)

    def name(left: str, symbols: list[str], _: list[Values]) -> tuple[str, ...]:
        index = "[i]" if set(roles) <= {"row", "one"} else "[i,j]"
        named = [of if whole else f"{of}{_INDEX[role]}" for of, role in zip(symbols, roles, strict=True)]
        formula = f"{left}{'' if whole else index} = {filled(named, named, constant.letters)}"
        return (r" \qquad ".join([formula, *constant.where]),)

    return Operation(operands, roles, equate, name)


def _over_row(
    template: str, work: Work, around: str, *operands: str, written: str = "{a}", joined: str = " + ",
    each: Callable[[float], float] = float, less: int = 0,
) -> Operation:  # fmt: skip
    r"""One number from a whole row, by a formula that `template` writes; what has no row of its own is added last.

    In `template` `{x}` is the cell of dimension k, and `{n}` the number that is divided by: the row's length without
    `less`. `each` is what an equation writes of a cell, `written` how (`{a}`, `{A}` in brackets where it is negative),
    and `around` what stands around these.
    """

    def equate(of: list[Values], row: int, _: int, digits: int) -> Equation:
        values, rest = of[0][row], [float(one[0, 0]) for one in of[1:]]
        parts = [
            written.format(a=number(value, i > 0, digits), A=number(value, True, digits))
            for i, value in enumerate(map(each, values[:NUMBERS_SHOWN]))
        ]
        if len(values) > NUMBERS_SHOWN:
            parts.append(dots(len(values) - NUMBERS_SHOWN))
        latex = around.format(terms=joined.join(parts), n=len(values) - less)
        latex += "".join(f" + {number(value, True, digits)}" for value in rest)
        terms = [(str(i), each(value)) for i, value in enumerate(values)]
        terms += zip(operands[1:], rest, strict=True)
        n, factors = len(values), np.concatenate([values, rest])
        return worked(latex, lambda x: work(x[:n]) + x[n:].sum(), factors, digits, tuple(terms))

    def name(left: str, symbols: list[str], values: list[Values]) -> tuple[str, ...]:
        found = template.format(x=f"{symbols[0]}[i,k]", n=values[0].shape[1] - less)
        return (f"{left}[i] = {' + '.join([found, *symbols[1:]])}",)

    roles: tuple[Role, ...] = ("rows", "one")
    return Operation(operands, roles[: len(operands)], equate, name)


mean = partial(_over_row, r"\frac{{1}}{{{n}}} \sum_k {x}", np.mean, r"\frac{{{terms}}}{{{n}}}")
"""The mean of each row."""
length = partial(_over_row, r"\sqrt{{\sum_k {x}^2}}", np.linalg.norm, r"\sqrt{{{terms}}}", written="{A}^2")
"""The Euclidean length of each row."""
largest = partial(_over_row, r"\max_k {x}", np.max, r"\max({terms})", joined=", ")
"""The largest number of each row."""
total = partial(_over_row, r"\sum_k {x}", np.sum, "{terms}")
"""The sum of each row, and of a number that is not in it, if there is one."""
share_above_zero = partial(
    _over_row, r"\frac{{1}}{{{n}}} \sum_k \mathbf{{1}}({x} > 0)", lambda x: (x > 0).mean(), r"\frac{{{terms}}}{{{n}}}",
    each=lambda x: float(x > 0),
)  # fmt: skip
"""The share of each row's numbers that are above 0."""

_ROWS: tuple[Role, ...] = ("row", "row")
share_of = partial(cellwise, _ROWS, r"\frac{{{a}}}{{{a} + {b}}}", lambda x: x[0] / x.sum())
"""What part of two numbers of a row the first one is."""
share_of_squares = partial(cellwise, _ROWS, r"\frac{{{a}^2}}{{{a}^2 + {b}^2}}", lambda x: x[0] ** 2 / (x @ x))
"""What part of the squares of two numbers of a row the first one is."""

_BY_ROW: tuple[Role, ...] = ("cell", "row")
less_row = partial(cellwise, _BY_ROW, "{a} - {B}", lambda x: x[0] - x[1])
"""A matrix, and from each of its cells its row's number is taken."""
less_logarithm = partial(cellwise, _BY_ROW, r"{a} - \ln({b})", lambda x: x[0] - np.log(x[1]))
"""A matrix, and from each of its cells the logarithm of its row's number is taken."""
through_row = partial(cellwise, _BY_ROW, r"\frac{{{a}}}{{{b}}}", lambda x: x[0] / x[1])
"""A matrix, each of whose cells is divided by its row's number."""

_CELLS: tuple[Role, ...] = ("cell", "cell")
less = partial(cellwise, _CELLS, "{a} - {B}", lambda x: x[0] - x[1])
"""A matrix, and from each of its cells the same cell of another is taken."""
added = partial(cellwise, _CELLS, "{a} + {B}", np.sum, whole=True)
"""Two matrices, added cell by cell."""

_COLUMNS: tuple[Role, ...] = ("column", "cell", "column")
met = partial(cellwise, _COLUMNS[:2], r"\tanh({a} + {B})", lambda x: np.tanh(x.sum()))
"""Additive attention's comparison: tanh of the query's one row plus each row of the keys."""
gained = partial(cellwise, _COLUMNS[:2], r"{a} \cdot {B}", np.prod)
"""Gain times a cell: each column has its own."""
fitted = partial(cellwise, _COLUMNS, r"{a} \cdot {B} + {C}", lambda x: x[0] * x[1] + x[2])
"""Gain times a cell, plus shift: each column has its own."""


def mean_square(operand: str, unbiased: bool = False) -> Operation:
    """The mean of the squares of each row: of a centred one its variance, divided by n or (`unbiased`) by n - 1."""
    less, around = int(unbiased), r"\frac{{{terms}}}{{{n}}}"
    form = r"\frac{{1}}{{{n}}} \sum_k {x}^2", lambda x: (x @ x) / (len(x) - less), around
    return _over_row(*form, operand, written="{A}^2", less=less)


def root(operand: str, eps: float, outside: bool) -> Operation:
    """The root of a row's number, with `eps` added to it, or under the root."""
    constant = Constant(number(eps), r"\epsilon", (rf"\epsilon = {number(eps)}",))
    if outside:
        form: tuple[str, Work] = r"\sqrt{{{a}}} + {constant}", lambda x: np.sqrt(x[0]) + eps
    else:
        form = r"\sqrt{{{a} + {constant}}}", lambda x: np.sqrt(x[0] + eps)
    return cellwise(("row",), *form, operand, constant=constant)


def scaled(operand: str, factor: float, constant: Constant = NO_CONSTANT, divided: bool = False) -> Operation:
    """Every cell times `factor`, which `constant` writes, or divided by it (`divided`); without one, as it is."""
    by = r"\frac{{{a}}}{{{constant}}}" if divided else r"{constant} \cdot {A}"
    template = by if constant.written else "{a}"
    return cellwise(("cell",), template, lambda x: x[0] * factor, operand, constant=constant, whole=True)


_INSIDE = r"0.7978845608 \cdot ({a} + 0.044715 \cdot {A}^2 \cdot {A})"  # the root of 2 / pi
_BENDS: dict[str, tuple[str, Work]] = {
    "relu": (r"\max(0, {a})", lambda x: max(0.0, x[0])),
    "gelu": (
        r"\frac{{{a}}}{{2}} \cdot (1 + \operatorname{{erf}}(\frac{{{a}}}{{\sqrt{{2}}}}))",
        lambda x: x[0] / 2 * (1 + erf(x[0] / np.sqrt(2))),
    ),
    "gelu_tanh": (
        rf"\frac{{{{{{a}}}}}}{{{{2}}}} \cdot (1 + \tanh({_INSIDE}))",
        lambda x: x[0] / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x[0] + 0.044715 * x[0] ** 3))),
    ),
    "sigmoid": (r"\frac{{1}}{{1 + e^{{-{A}}}}}", lambda x: 1 / (1 + np.exp(-x[0]))),
    "exp": ("e^{{{a}}}", lambda x: np.exp(x[0])),
}


def bent(operand: str, function: str) -> Operation:
    """A function of each cell: ReLU, SiLU, GELU (exact, or by a tanh as GPT-2 has it), sigmoid, or e to its power."""
    return cellwise(("cell",), *_BENDS[function], operand)
