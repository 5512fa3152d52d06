"""Operations in which a cell comes from whole rows: products, softmax, norm, and additive attention's comparison."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from transformer.lessons.expressions.operations import Cells, Equation, Known, number
from transformer.messages import words

TERMS_SHOWN = 6
"""Terms that an equation writes out before it goes on with dots."""

TERMS_A_LINE = 2
"""Products on one line of an equation, so that it fits a narrow screen."""


@dataclass(frozen=True)
class Product:
    """Rows of `left` times columns of `right` (rows, if `transposed`), plus a bias per column."""

    left: str
    right: str
    transposed: bool = False
    bias: tuple[float, ...] | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Left and right."""
        return self.left, self.right

    def back(self, cells: Cells, known: Known) -> dict[str, Cells]:
        """A whole row on the left meets a whole column (or row) on the right."""
        rows, columns = _rows(cells), _columns(cells)
        left = np.repeat(rows[:, None], known[self.left].shape[1], axis=1)
        return {self.left: left, self.right: self._beside(columns, known)}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """A cell on the left goes to its row; one on the right to its column."""
        result = np.zeros(shape, dtype=bool)
        if operand == self.left:
            result |= _rows(cells)[:, None]
        if operand == self.right:
            result |= (_rows(cells) if self.transposed else _columns(cells))[None, :]
        return result

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """Each product of the sum, then the bias."""
        a = known[self.left][row]
        b = known[self.right][column] if self.transposed else known[self.right][:, column]
        terms = [(rf"{number(x)} · {number(y)}", float(x * y)) for x, y in zip(a, b, strict=True)]
        written = [
            rf"{number(x, brackets=i > 0)} \times {number(y, brackets=True)}"
            for i, (x, y) in enumerate(zip(a[:TERMS_SHOWN], b, strict=False))
        ]
        if len(a) > TERMS_SHOWN:
            written.append(_dots(len(a) - TERMS_SHOWN))
        if self.bias is not None and any(self.bias):
            terms.append((words("lesson_term_bias"), self.bias[column]))
            written.append(number(self.bias[column], brackets=True))
        lines = (" + ".join(written[i : i + TERMS_A_LINE]) for i in range(0, len(written), TERMS_A_LINE))
        return Equation(r" \\ &\quad + ".join(lines), tuple(terms), sum(value for _, value in terms))

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
        return {self.query: _columns(cells)[None, :], self.keys: cells}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """A cell of the query goes to its whole column, one of the keys to the same cell."""
        return np.repeat(cells, shape[0], axis=0) if operand == self.query else cells

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """The two numbers under the hyperbolic tangent."""
        q, k = float(known[self.query][0, column]), float(known[self.keys][row, column])
        return Equation(
            rf"\tanh({number(q)} + {number(k, brackets=True)})",
            (
                (words("lesson_term_query"), q),
                (words("lesson_term_key"), k),
                (words("lesson_term_sum"), q + k),
            ),
            float(np.tanh(q + k)),
        )


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
        return {self.operand: np.repeat(_rows(cells)[:, None], cells.shape[1], axis=1)}

    def ahead(self, operand: str, cells: Cells, known: Known, shape: tuple[int, int]) -> Cells:
        """The whole row."""
        return np.repeat(_rows(cells)[:, None], shape[1], axis=1)


@dataclass(frozen=True)
class Softmax(_RowByRow):
    """Exponentials of a row, each divided by their sum; `zero_if_blind` says what a row of minus infinity becomes."""

    zero_if_blind: bool = True

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """The exponential over the sum of the row's exponentials."""
        scores = known[self.operand][row]
        top = np.exp(scores)
        below = float(top.sum())
        shown = [f"e^{{{number(score)}}}" for score in scores[:TERMS_SHOWN]]
        if len(scores) > TERMS_SHOWN:
            shown.append(_dots(len(scores) - TERMS_SHOWN))
        terms = tuple((f"exp({number(score)})", float(value)) for score, value in zip(scores, top, strict=True))
        if below == 0.0:  # minus infinity everywhere, or numbers too far below 0 for exp
            blind = bool(np.isneginf(scores).all())
            lowered = np.exp(scores - scores.max()) if not blind else top
            total = float(lowered[column] / lowered.sum()) if not blind else (0.0 if self.zero_if_blind else np.nan)
            return Equation(r"\frac{0}{0}" if blind else rf"\frac{{e^0}}{{{len(scores)}\,e^0}}", terms, total)
        latex = (
            rf"\frac{{e^{{{number(scores[column])}}}}}{{{' + '.join(shown)}}} = "
            rf"\frac{{{number(top[column])}}}{{{number(below)}}}"
        )
        return Equation(latex, terms, float(top[column]) / below)


@dataclass(frozen=True)
class Normalise(_RowByRow):
    """Centre a row, divide by its deviation, then gain and shift per column.

    `unbiased` divides the variance by n - 1 and adds `eps` to the deviation (The Annotated Transformer); otherwise
    the variance is divided by n and `eps` is added to it (torch).
    """

    gain: tuple[float, ...]
    shift: tuple[float, ...]
    eps: float
    unbiased: bool

    def equation(self, row: int, column: int, known: Known) -> Equation:
        """Value, mean and deviation, gain and shift."""
        values = known[self.operand][row]
        mean = float(values.mean())
        deviation = float(values.std(ddof=1) + self.eps if self.unbiased else np.sqrt(values.var() + self.eps))
        value, gain, shift = float(values[column]), self.gain[column], self.shift[column]
        total = (value - mean) / deviation * gain + shift
        latex = (
            rf"\frac{{{number(value)} - {number(mean, brackets=True)}}}{{{number(deviation)}}} "
            rf"\times {number(gain, brackets=True)} + {number(shift, brackets=True)}"
        )
        names = ("value", "row_mean", "row_deviation", "gain", "shift")
        parts = (value, mean, deviation, gain, shift)
        terms = tuple((words(f"lesson_term_{name}"), part) for name, part in zip(names, parts, strict=True))
        return Equation(latex, terms, total)


def _dots(count: int) -> str:
    """Dots that stand for `count` more terms."""
    return rf"\underbrace{{\cdots}}_{{{count}}}"


def _rows(cells: Cells) -> Bool[np.ndarray, " row"]:
    return np.asarray(cells.any(axis=1))


def _columns(cells: Cells) -> Bool[np.ndarray, " column"]:
    return np.asarray(cells.any(axis=0))
