"""How one matrix comes from others: its formula; for any cell where it came from, where it goes, and its equation.

An operation never makes the values: the library's layers do. It only knows which cells meet in which, so its formula
and its equations can be held against the values that the layer gave. Those that a template
writes are `formulas`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from ..messages import words

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
