"""Operations in which a cell comes from whole rows: products, softmax, norm, and additive attention's comparison."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from transformer.lessons.expressions.operations import (
    DIGITS,
    Cells,
    Equation,
    Factors,
    Known,
    SymbolOf,
    cases,
    columns_of,
    is_exact,
    number,
    rows_of,
    shown,
    upright,
    worked,
)
from transformer.messages import words

TERMS_SHOWN = 6
"""Terms that an equation writes out before it goes on with dots."""

EXPONENTIALS_SHOWN = 4
"""Exponentials that stand under one fraction's line; of more than these the last one makes way for dots."""


@dataclass(frozen=True)
class Product:
    """Rows of `left` times columns of `right` (rows, if `transposed`), plus the one row of `bias` (or one number)."""

    left: str
    right: str
    transposed: bool = False
    bias: str | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Left, right, and the bias, if there is one."""
        return (self.left, self.right) if self.bias is None else (self.left, self.right, self.bias)

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """A whole row on the left meets a whole column (or row) on the right."""
        rows, columns = rows_of(cells), columns_of(cells)
        left = np.repeat(rows[:, None], known[self.left].shape[1], axis=1)
        found = {self.left: left, self.right: self._beside(columns, known)}
        if self.bias is not None:
            single = known[self.bias].shape[1] == 1
            found[self.bias] = np.array([[columns.any()]]) if single else columns[None, :]
        return found

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """A cell on the left goes to its row; one on the right, or of the bias, to its column."""
        result = np.zeros(shape, dtype=bool)
        if operand == self.left:
            result |= rows_of(cells)[:, None]
        if operand == self.right:
            result |= (rows_of(cells) if self.transposed else columns_of(cells))[None, :]
        if operand == self.bias:
            result |= cells
        return result

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """Each product of the sum, then the bias."""
        a = known[self.left][row]
        b = known[self.right][column] if self.transposed else known[self.right][:, column]
        summands = np.zeros(0) if self.bias is None else known[self.bias][0]
        bias = summands[column : column + 1] if len(summands) > 1 else summands
        terms = [
            (rf"{number(x, digits=digits)} · {number(y, digits=digits)}", float(x * y))
            for x, y in zip(a, b, strict=True)
        ]
        written = [
            rf"{{{number(x, i > 0, digits)} \cdot {number(y, True, digits)}}}"  # a line never breaks in a product
            for i, (x, y) in enumerate(zip(a[:TERMS_SHOWN], b, strict=False))
        ]
        if len(a) > TERMS_SHOWN:
            written.append(_dots(len(a) - TERMS_SHOWN))
        for value in bias:
            terms.append((words("lesson_term_bias"), float(value)))
            written.append(number(value, True, digits))

        def work(factors: Factors) -> float:
            return float(factors[: len(a)] @ factors[len(a) : 2 * len(a)] + factors[2 * len(a) :].sum())

        return worked(" + ".join(written), tuple(terms), work, np.concatenate([a, b, bias]), digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The product of the matrices, and the bias."""
        right = symbol(self.right)
        if self.transposed:
            right = rf"{{{right}}}^\top" if "^" in right else rf"{right}^\top"  # KaTeX refuses a second upper index
        bias = "" if self.bias is None else f" + {symbol(self.bias)}"
        return (rf"{left} = {symbol(self.left)}\,{right}{bias}",)

    def _beside(self, columns: Bool[np.ndarray, " column"], known: Known) -> Cells:
        shape = known[self.right].shape
        if self.transposed:
            return np.repeat(columns[:, None], shape[1], axis=1)
        return np.repeat(columns[None, :], shape[0], axis=0)


@dataclass(frozen=True)
class TanhSum:
    """tanh of one row (the query) plus each row of another matrix (the keys): additive attention's comparison."""

    query: str
    keys: str

    @property
    def operands(self) -> tuple[str, ...]:
        """Query and keys."""
        return self.query, self.keys

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """The query's cell of the same column, and the same cell of the keys."""
        return {self.query: columns_of(cells)[None, :], self.keys: cells}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """A cell of the query goes to its whole column, one of the keys to the same cell."""
        return np.repeat(cells, shape[0], axis=0) if operand == self.query else cells

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The two numbers under the hyperbolic tangent."""
        q, k = float(known[self.query][0, column]), float(known[self.keys][row, column])
        latex = rf"\tanh({number(q, digits=digits)} + {number(k, True, digits)})"
        names = ("query", "key", "sum")
        terms = tuple((words(f"lesson_term_{name}"), x) for name, x in zip(names, (q, k, q + k), strict=True))
        return worked(latex, terms, lambda x: np.tanh(x.sum()), np.array([q, k]), digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The query's row is added to each row of the keys."""
        return (rf"{left}[i,j] = \tanh({symbol(self.query)}[j] + {symbol(self.keys)}[i,j])",)


@dataclass(frozen=True)
class _RowByRow:
    """Operations in which a cell comes from its whole row."""

    operand: str

    @property
    def operands(self) -> tuple[str, ...]:
        """The one operand."""
        return (self.operand,)

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """The whole row."""
        return {self.operand: np.repeat(rows_of(cells)[:, None], cells.shape[1], axis=1)}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The whole row."""
        return np.repeat(rows_of(cells)[:, None], shape[1], axis=1)


@dataclass(frozen=True)
class Softmax(_RowByRow):
    """Exponentials of a row, each divided by their sum; `zero_if_blind` says what a row of minus infinity becomes."""

    zero_if_blind: bool = True

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """The exponential over the sum of the row's exponentials.

        Where all exponentials are too small to be written, the largest score is taken from each first.
        """
        scores = known[self.operand][row]
        if np.isneginf(scores).all():
            total = 0.0 if self.zero_if_blind else np.nan
            terms = tuple((f"exp({number(score)})", 0.0) for score in scores)
            return Equation(r"\frac{0}{0}", terms, total, total, exact=True)
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
            summed.append(_dots(len(scores) - count))
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
        return Equation(latex, terms, total, worst, all(is_exact(score, digits) for score in scores))

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The quotient; and what a row becomes in which everything is hidden, if there is one."""
        of = symbol(self.operand)
        quotient = rf"\frac{{e^{{{of}[i,j]}}}}{{\sum_k e^{{{of}[i,k]}}}}"
        if not np.isneginf(known[self.operand]).all(axis=1).any():
            return (f"{left}[i,j] = {quotient}",)
        sees, blind = upright("lesson_where_sees", query="i"), upright("lesson_where_blind")
        return (cases(left, (quotient, sees), (number(0.0 if self.zero_if_blind else np.nan), blind)),)


@dataclass(frozen=True)
class Normalise(_RowByRow):
    """Centre a row, divide by its deviation, then gain and shift per column: the one row of each of these matrices.

    `unbiased` divides the variance by n - 1 and adds `eps` to the deviation (The Annotated Transformer); otherwise
    the variance is divided by n and `eps` is added to it (torch).
    """

    gain: str
    shift: str
    eps: float
    unbiased: bool

    @property
    def operands(self) -> tuple[str, ...]:
        """The matrix that is normalised, gain and shift."""
        return self.operand, self.gain, self.shift

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """The whole row, and the column's gain and shift."""
        columns = columns_of(cells)[None, :]
        return {**super().back(cells, known), self.gain: columns, self.shift: columns}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The whole row, or the gain's and the shift's column."""
        if operand == self.operand:
            return super().ahead(operand, cells, known, shape)
        return np.repeat(cells, shape[0], axis=0)

    def equation(self, row: int, column: int, known: Known, digits: int = DIGITS) -> Equation:
        """Value, mean and deviation, gain and shift."""
        values = known[self.operand][row]
        mean = float(values.mean())
        deviation = float(values.std(ddof=1) + self.eps if self.unbiased else np.sqrt(values.var() + self.eps))
        gain, shift = (float(known[name][0, column]) for name in (self.gain, self.shift))
        parts = np.array([values[column], mean, deviation, gain, shift])
        value, below = (number(part, digits=digits) for part in (values[column], deviation))
        centre, factor, summand = (number(part, True, digits) for part in (mean, gain, shift))
        latex = rf"\frac{{{value} - {centre}}}{{{below}}} \cdot {factor} + {summand}"
        names = ("value", "row_mean", "row_deviation", "gain", "shift")
        terms = tuple((words(f"lesson_term_{name}"), float(part)) for name, part in zip(names, parts, strict=True))
        return worked(latex, terms, lambda x: (x[0] - x[1]) / x[2] * x[3] + x[4], parts, digits)

    def formulas(self, left: str, symbol: SymbolOf, known: Known) -> tuple[str, ...]:
        """The normalised cell; then mean and variance of its row."""
        of, gain, shift = map(symbol, self.operands)
        n = known[self.operand].shape[1]
        below = r"\sigma[i] + \epsilon" if self.unbiased else r"\sqrt{\sigma[i]^2 + \epsilon}"
        cell = rf"{left}[i,j] = {gain}[j]\,\frac{{{of}[i,j] - \mu[i]}}{{{below}}} + {shift}[j]"
        mean = rf"\mu[i] = \frac{{1}}{{{n}}} \sum_k {of}[i,k]"
        count = n - 1 if self.unbiased else n
        variance = rf"\sigma[i]^2 = \frac{{1}}{{{count}}} \sum_k ({of}[i,k] - \mu[i])^2"
        return (rf"{cell} \qquad \epsilon = {number(self.eps)}", mean, variance)


def _dots(count: int) -> str:
    """Dots that stand for `count` more terms."""
    return rf"\underbrace{{\cdots}}_{{{count}}}"
