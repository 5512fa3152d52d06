"""How one matrix comes from others: its formula; for any cell where it came from, where it goes, and its equation.

An operation never makes the values: the library's layers do. It only knows which cells meet in which, so its formula
and its equations can be held against the values that the layer gave. Those that a template writes stand last, by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import erf
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from transformer.messages import words

Values = Float[np.ndarray, "_row _column"]
Factors = Float[np.ndarray, "_factor"]
"""The numbers that one cell is worked out from."""

Work = Callable[[Factors], Any]
"""Makes one number of them."""

Cells = Bool[np.ndarray, "_row _column"]
Known = Mapping[str, Values]
"""The values of every matrix made so far, by name."""

SymbolOf = Callable[[str], str]
"""The LaTeX symbol of a matrix, by its name."""

Role = Literal["cell", "row", "column", "one", "rows", "columns", "across", "part"]
"""What a cell takes of an operand: the same cell; the one number of its row or of its column, or the only number; its
whole row; or, as products do, the whole column of its number, or the whole row of its column's number. Operands that
are a `part` stand beside each other."""

DIGITS = 3
"""Decimals that a number shows where nothing asks for more."""

TERMS_SHOWN, EXPONENTIALS_SHOWN, NUMBERS_SHOWN = 6, 4, 4
"""Terms of a product, exponentials of a softmax and numbers of a row that an equation writes out before it goes on
with dots; of exponentials the last one makes way for these."""

_INDEX: dict[Role, str] = {"cell": "[i,j]", "row": "[i]", "column": "[j]", "one": ""}


@dataclass(frozen=True)
class Equation:
    """One cell worked out: LaTeX with its numbers (for an `aligned` block), and what they come to.

    `recomputed` is what the numbers come to as they are written, and `exact` whether they are written with all their
    digits. `terms` are all terms of a sum that may be too long to be written out.
    """

    latex: str
    total: float
    recomputed: float
    exact: bool
    terms: tuple[tuple[str, float], ...] = ()


Equate = Callable[[list[Values], int, int, int], Equation]
Name = Callable[[str, list[str], list[Values]], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Operation:
    """What a matrix knows about its making: the matrices that it is made from, and what a cell takes of each.

    `equate` works out one cell of the operands' values: it is given these, row, column and decimals. `name` gives the
    formulas of the whole, of what it is called, the operands' symbols and their values. Only cells that are `kept`,
    where that is given, come from the operand. What nothing is told of makes nothing: see `START`.
    """

    operands: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    equate: Equate = lambda *_: Equation("", float("nan"), float("nan"), exact=True)
    name: Name = lambda *_: ()
    kept: Cells | None = None

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """For each operand, the cells that meet in any of `cells`."""
        found: dict[str, Cells] = {}
        rows, columns = _sides(cells)
        whole, at = cells if self.kept is None else cells & self.kept, 0
        for name, role in zip(self.operands, self.roles, strict=True):
            shape = known[name].shape
            part = cells[:, at : at + shape[1]]
            at += shape[1]
            taken = {"cell": whole, "column": columns, "columns": columns, "across": columns.T, "part": part}
            one = np.array([[cells.any()]]) if shape == (1, 1) and role != "part" else taken.get(role, rows)
            found[name] = np.broadcast_to(one, shape) | found.get(name, False)
        return found

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The cells of the result (of that shape) that any of the operand's `cells` goes to."""
        reached, at = np.zeros(shape, dtype=bool), 0
        rows, columns = _sides(cells)
        goes = {"rows": rows, "columns": columns, "across": rows.T}
        for name, role in zip(self.operands, self.roles, strict=True):
            width = known[name].shape[1]
            if name == operand:
                reached[:, at : at + width if role == "part" else None] |= goes.get(role, cells)
            at += width if role == "part" else 0
        return reached if self.kept is None else reached & self.kept

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """How one cell is worked out, its numbers written with so many decimals; empty where nothing is."""
        return self.equate([known[name] for name in self.operands], row, column, digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """How the whole matrix, called `left`, is made; further formulas define what the first one uses.

        In `A[i,j]` rows and columns are named, and `b[j]` is a single row; without brackets matrices are meant.
        Values of letters follow their formula after a wide space.
        """
        return self.name(left, [symbol(name) for name in self.operands], [known[name] for name in self.operands])


START = Operation()
"""The operation of what is given: embeddings, parameters, or what an earlier layer handed on."""


def product(left: str, right: str, transposed: bool = False, bias: str | None = None) -> Operation:
    """Rows of `left` times columns of `right` (rows, if `transposed`), plus the one row of `bias` (or one number)."""

    def equate(of: list[Values], row: int, column: int, digits: int) -> Equation:
        a, b = of[0][row], of[1][column] if transposed else of[1][:, column]
        summands = np.zeros(0) if bias is None else of[2][0]
        added = summands[column : column + 1] if len(summands) > 1 else summands
        terms = [
            (rf"{number(x, digits=digits)} · {number(y, digits=digits)}", float(x * y))
            for x, y in zip(a, b, strict=True)
        ]
        written = [
            rf"{{{number(x, i > 0, digits)} \cdot {number(y, True, digits)}}}"  # a line never breaks in a product
            for i, (x, y) in enumerate(zip(a[:TERMS_SHOWN], b, strict=False))
        ]
        if len(a) > TERMS_SHOWN:
            written.append(dots(len(a) - TERMS_SHOWN))
        for value in added:
            terms.append((words("lesson_term_bias"), float(value)))
            written.append(number(value, True, digits))
        n, factors = len(a), np.concatenate([a, b, added])
        return worked(
            " + ".join(written), lambda x: x[:n] @ x[n : 2 * n] + x[2 * n :].sum(), factors, digits, tuple(terms)
        )

    def name(of: str, symbols: list[str], _: list[Values]) -> tuple[str, ...]:
        first, second, *plus = symbols
        if transposed:
            second = rf"{{{second}}}^\top" if "^" in second else rf"{second}^\top"  # KaTeX refuses two upper indices
        return (" + ".join([rf"{of} = {first}\,{second}", *plus]),)

    operands = (left, right) if bias is None else (left, right, bias)
    roles: tuple[Role, ...] = ("rows", "across" if transposed else "columns", "column")
    return Operation(operands, roles[: len(operands)], equate, name)


def softmax(operand: str, zero_if_blind: bool = True) -> Operation:
    """Exponentials of a row, each divided by their sum; `zero_if_blind` says what a row of minus infinity becomes.

    Where all exponentials are too small to be written, an equation takes the row's largest score from each first.
    """
    of_blind = 0.0 if zero_if_blind else np.nan

    def equate(of: list[Values], row: int, column: int, digits: int) -> Equation:
        scores = of[0][row]
        if np.isneginf(scores).all():
            terms = tuple((f"exp({number(score)})", 0.0) for score in scores)
            return Equation(r"\frac{0}{0}", of_blind, of_blind, exact=True, terms=terms)
        top = float(scores.max())
        lowered = top if np.exp(top) < 1e-6 or not np.isfinite(np.exp(top)) else 0.0

        def raised(x: Factors) -> Factors:
            return np.exp(x - (x.max() if lowered else 0.0))

        powers = raised(scores)
        taken = f" - {number(lowered, True, digits)}" if lowered else ""
        written = [f"{number(score, digits=digits)}{taken}" for score in scores]
        count = len(scores) if len(scores) <= EXPONENTIALS_SHOWN else EXPONENTIALS_SHOWN - 1
        summed = [f"e^{{{score}}}" for score in written[:count]]
        if len(scores) > count:
            summed.append(dots(len(scores) - count))
        terms = tuple((f"exp({score})", float(power)) for score, power in zip(written, powers, strict=True))
        latex = (
            rf"\frac{{e^{{{written[column]}}}}}{{{' + '.join(summed)}}} \approx "
            rf"\frac{{{number(powers[column], digits=digits)}}}{{{number(powers.sum(), digits=digits)}}}"
        )
        # By hand one takes either fraction, so both have to come to the result: the one that is further off counts.
        rounded = raised(np.array([shown(score, digits) for score in scores]))
        total = float(powers[column] / powers.sum())
        found = (rounded[column] / rounded.sum(), shown(powers[column], digits) / shown(powers.sum(), digits))
        worst = max(map(float, found), key=lambda share: abs(share - shown(total)))
        return Equation(latex, total, worst, all(is_exact(score, digits) for score in scores), terms)

    def name(left: str, symbols: list[str], values: list[Values]) -> tuple[str, ...]:
        of = symbols[0]
        quotient = rf"\frac{{e^{{{of}[i,j]}}}}{{\sum_k e^{{{of}[i,k]}}}}"
        if not np.isneginf(values[0]).all(axis=1).any():
            return (f"{left}[i,j] = {quotient}",)
        sees, blind = upright("lesson_where_sees", query="i"), upright("lesson_where_blind")
        return (cases(left, (quotient, sees), (number(of_blind), blind)),)

    return Operation((operand,), ("rows",), equate, name)


def normalise(operand: str, gain: str, shift: str, eps: float, unbiased: bool) -> Operation:
    """Centre a row, divide by its deviation, then gain and shift per column: the one row of each of these matrices.

    `unbiased` divides the variance by n - 1 and adds `eps` to the deviation (The Annotated Transformer); otherwise
    the variance is divided by n and `eps` is added to it (torch).
    """

    def equate(of: list[Values], row: int, column: int, digits: int) -> Equation:
        values = of[0][row]
        deviation = values.std(ddof=1) + eps if unbiased else np.sqrt(values.var() + eps)
        parts = np.array([values[column], values.mean(), deviation, of[1][0, column], of[2][0, column]])
        value, _, below, *_ = (number(part, digits=digits) for part in parts)
        _, centre, _, factor, summand = (number(part, True, digits) for part in parts)
        latex = rf"\frac{{{value} - {centre}}}{{{below}}} \cdot {factor} + {summand}"
        return worked(latex, lambda x: (x[0] - x[1]) / x[2] * x[3] + x[4], parts, digits)

    def name(left: str, symbols: list[str], values: list[Values]) -> tuple[str, ...]:
        (of, gain, shift), n = symbols, values[0].shape[1]
        below = r"\sigma[i] + \epsilon" if unbiased else r"\sqrt{\sigma[i]^2 + \epsilon}"
        cell = rf"{left}[i,j] = {gain}[j]\,\frac{{{of}[i,j] - \mu[i]}}{{{below}}} + {shift}[j]"
        mean = rf"\mu[i] = \frac{{1}}{{{n}}} \sum_k {of}[i,k]"
        variance = rf"\sigma[i]^2 = \frac{{1}}{{{n - 1 if unbiased else n}}} \sum_k ({of}[i,k] - \mu[i])^2"
        return (rf"{cell} \qquad \epsilon = {number(eps)}", mean, variance)

    return Operation((operand, gain, shift), ("rows", "column", "column"), equate, name)


def hide(operand: str, kept: Cells, fill: float) -> Operation:
    """Replace the scores of hidden cells, which go nowhere, by a fill (minus infinity, or a large negative number)."""

    def equate(of: list[Values], row: int, column: int, digits: int) -> Equation:
        return _copied(float(of[0][row, column]) if kept[row, column] else fill, digits)

    def name(left: str, symbols: list[str], _: list[Values]) -> tuple[str, ...]:
        if kept.all():
            return (f"{left} = {symbols[0]}",)
        visible, hidden = upright("lesson_where_visible", query="i", key="j"), upright("lesson_where_hidden")
        return (cases(left, (f"{symbols[0]}[i,j]", visible), (number(fill), hidden)),)

    return Operation((operand,), ("cell",), equate, name, kept)


def drop(operand: str, kept: Cells, p: float) -> Operation:
    """Dropout: some cells become 0, the others grow by 1 / (1 - p)."""

    def equate(of: list[Values], row: int, column: int, digits: int) -> Equation:
        value = float(of[0][row, column])
        text = number(value, digits=digits)
        if not kept[row, column]:
            return Equation(rf"0 \cdot {text}", 0.0, 0.0, exact=True)
        return worked(rf"\frac{{{text}}}{{1 - {number(p)}}}", lambda x: x[0] / (1 - p), np.array([value]), digits)

    def name(left: str, symbols: list[str], _: list[Values]) -> tuple[str, ...]:
        grown = rf"\frac{{{symbols[0]}[i,j]}}{{1 - p}}"
        found = cases(left, (grown, upright("lesson_where_kept")), ("0", upright("lesson_where_dropped")))
        return (rf"{found} \qquad p = {number(p)}",)

    return Operation((operand,), ("cell",), equate, name, kept)


def concatenate(*operands: str) -> Operation:
    """Put matrices side by side: each column belongs to one operand."""
    roles: tuple[Role, ...] = tuple("part" for _ in operands)
    return Operation(
        operands, roles,
        lambda of, row, column, digits: _copied(float(np.concatenate([one[row] for one in of])[column]), digits),
        lambda left, symbols, _: (f"{left} = [{', '.join(symbols)}]",),
    )  # fmt: skip


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


def _copied(value: float, digits: int) -> Equation:
    return worked(number(value, digits=digits), np.sum, np.array([value]), digits)


def _sides(cells: Cells) -> tuple[Cells, Cells]:
    """Which rows hold one of the cells, as a column; and which columns, as a row."""
    return np.asarray(cells.any(axis=1, keepdims=True)), np.asarray(cells.any(axis=0, keepdims=True))


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
    return not np.isfinite(value) or bool(abs(shown(value, digits) - value) <= 1e-9 * abs(value))


def worked(
    latex: str, work: Work, factors: Factors, digits: int, terms: tuple[tuple[str, float], ...] = ()
) -> Equation:
    """An equation whose result is `work(factors)`, with the factors as they are and as they are written."""
    rounded = np.array([shown(factor, digits) for factor in factors])
    exact = all(is_exact(factor, digits) for factor in factors)
    return Equation(latex, float(work(factors)), float(work(rounded)), exact, terms)


def cases(left: str, *rows: tuple[str, str]) -> str:
    r"""What cell i, j of `left` is in each of several cases: a value, and the text that says when."""
    written = r" \\ ".join(rf"{value} & {when}" for value, when in rows)
    return rf"{left}[i,j] = \begin{{cases}} {written} \end{{cases}}"


def dots(count: int) -> str:
    """Dots that stand for `count` more terms."""
    return rf"\underbrace{{\cdots}}_{{{count}}}"


def upright(code: str, **symbols: str) -> str:
    """A text of the catalogue as a part of a formula; its fields are symbols, written as in formulas."""
    outside = {name: rf"}}{symbol}\text{{" for name, symbol in symbols.items()}
    return rf"\text{{{words(code, **outside)}}}".replace(r"\text{}", "")


def _written(value: float, digits: int) -> str:
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 0.5 * 10**-digits):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


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
