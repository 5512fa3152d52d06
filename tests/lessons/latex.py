"""A reader of the lessons' formulas: it computes what a formula says, with NumPy alone, from the symbols' numbers."""

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]

_SPACE = re.compile(r"(\\,|\s|\\quad)+")
_NUMBER = re.compile(r"\d+(\.\d+)?")
INDICES = "ijk"
ENDS = ("+", "-", ")", "]", "}", ",", "&", ">", "\\\\", r"\end", r"\cdot", r"\qquad")
"""Signs that no factor begins with."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    r"\tanh(": np.tanh,
    r"\ln(": np.log,
    r"\operatorname{erf}(": np.vectorize(math.erf),
    r"\max(": lambda *parts: functools.reduce(np.maximum, parts),
}
OVER_K: dict[str, Callable[..., Any]] = {r"\sum_k": np.sum, r"\max_k": np.max}
CONSTANTS = {r"\infty": np.inf, r"\text{undefined}": np.nan}


class Formula:
    """The right side of one equation, read from left to right; indices i, j, k are the axes of every number.

    `symbols` maps LaTeX symbols to matrices, rows (one row of a matrix) or numbers; `cases` tells, for the words of a
    case, where it holds.
    """

    def __init__(self, text: str, symbols: Mapping[str, Any], cases: Mapping[str, Any]) -> None:
        self.text, self.at = text, 0
        self.symbols, self.cases = symbols, cases
        self.names = sorted(symbols, key=len, reverse=True)
        self.shift: Numbers = np.zeros(())
        self.largest: Numbers = np.zeros(())

    @property
    def rest(self) -> str:
        if found := _SPACE.match(self.text, self.at):
            self.at = found.end()
        return self.text[self.at :]

    def value(self) -> Numbers:
        """What the whole text comes to."""
        found = self.sum()
        assert not self.rest, f"not understood: {self.rest!r} in {self.text!r}"
        return found

    def takes(self, token: str) -> bool:
        is_next = self.rest.startswith(token)
        self.at += len(token) * is_next
        return is_next

    def need(self, token: str) -> None:
        assert self.takes(token), f"{token!r} is missing at {self.rest!r} in {self.text!r}"

    def sum(self) -> Numbers:
        total = self.product() * -1 if self.takes("-") else self.product()
        while True:
            if self.takes("+"):
                total = total + self.product()
            elif self.takes("-"):
                total = total - self.product()
            else:
                return total

    def product(self) -> Numbers:
        total = self.power()
        while True:
            if self.takes(r"\cdot"):
                total = total * self.power()
            elif self.rest and not self.rest.startswith(ENDS):
                right = self.power()
                plain = total.ndim == 2 and right.ndim == 2  # matrices, not cells
                total = total @ right if plain else total * right
            else:
                return total

    def power(self) -> Numbers:
        base = self.atom()
        if self.takes(r"^\top"):
            return base.T
        if self.takes("^2"):
            return base**2
        if not self.takes("^{"):
            return base
        exponent = self.sum()
        self.need("}")
        if base.ndim == 0 and base == np.e:
            self.largest = exponent.max(axis=-1, keepdims=True) if exponent.ndim else exponent
            return np.asarray(np.exp(exponent - self.shift))
        return np.asarray(np.power(base, exponent))

    def group(self, begins: str = "{", ends: str = "}") -> Numbers:
        self.need(begins)
        found = self.sum()
        self.need(ends)
        return found

    def fraction(self) -> Numbers:
        start = self.at
        above, below = self.group(), self.group()
        if np.any(below == 0) and np.any(self.largest < -700):
            # Too small for float64: the same factor is taken from all exponentials, which changes no quotient.
            self.at, self.shift = start, np.where(np.isfinite(self.largest), self.largest, 0.0)
            above, below = self.group(), self.group()
            self.shift = np.zeros(())
        with np.errstate(invalid="ignore"):
            return above / below

    def atom(self) -> Numbers:  # noqa: PLR0911, PLR0912  (one branch a sign of the formulas)
        for begins, ends in ("()", "{}"):
            if self.rest.startswith(begins):
                return self.group(begins, ends)
        if self.takes(r"\frac"):
            return self.fraction()
        if self.takes(r"\sqrt"):
            return np.sqrt(self.group())
        for token, function in FUNCTIONS.items():
            if self.takes(token):
                return np.asarray(function(*self.parts(")")))
        for token, function in OVER_K.items():
            if self.takes(token):
                return np.asarray(function(self.product(), axis=2, keepdims=True))
        for token, constant in CONSTANTS.items():
            if self.takes(token):
                return np.array(constant)
        if self.takes(r"\mathbf{1}("):
            found = self.sum()
            self.need("> 0)")
            return np.asarray(found > 0, dtype=float)
        if self.takes(r"\begin{cases}"):
            return self.conditions()
        if self.takes("["):
            return np.concatenate(self.parts("]"), axis=1)
        for name in self.names:
            if self.takes(name):
                return self.indexed(np.asarray(self.symbols[name], dtype=float))
        if digits := _NUMBER.match(self.text, self.at):
            self.at = digits.end()
            return np.array(float(digits.group()))
        self.need("e")
        assert self.text[self.at] == "^"
        return np.array(np.e)

    def parts(self, end: str) -> list[Numbers]:
        """What stands between commas, up to a closing sign."""
        found = [self.sum()]
        while self.takes(","):
            found.append(self.sum())
        self.need(end)
        return found

    def indexed(self, matrix: Numbers) -> Numbers:
        """A matrix whose axes are named, with one axis for each of i, j, k; without names, the matrix itself."""
        found = re.compile(r"\[([ijk])(?:,([ijk]))?\]").match(self.text, self.at)
        if found is None:
            return matrix
        self.at = found.end()
        names = [name for name in found.groups() if name]
        if matrix.ndim == 3:  # a mean or deviation of rows, which has its axes already
            assert names == ["i"]
            return matrix
        if len(names) == 1:
            lost = int(names == ["i"])
            assert matrix.shape[lost] == 1, "one index i names the rows of one column, another the columns of one row"
            matrix = matrix.squeeze(lost)
        shape = [1, 1, 1]
        for name, size in zip(names, matrix.shape, strict=True):
            shape[INDICES.index(name)] = size
        return matrix.reshape(shape)

    def conditions(self) -> Numbers:
        result: Numbers | None = None
        while not self.takes(r"\end{cases}"):
            value = self.sum()
            end = min(at for at in (self.text.find(r"\\", self.at), self.text.find(r"\end", self.at)) if at >= 0)
            where = np.asarray(self.cases[self.text[self.at : end].strip().removeprefix("&").strip()])[..., None]
            self.at = end
            self.takes(r"\\")
            other = np.full(np.broadcast_shapes(value.shape, where.shape), np.nan) if result is None else result
            result = np.where(where, value, other)
        assert result is not None
        return result


def evaluated(formulas: Sequence[str], symbols: Mapping[str, Any], cases: Mapping[str, Any]) -> Numbers:
    """The matrix that `formulas` define: the first says what it is, the others what it uses (see `Board.formulas`)."""
    known: dict[str, Any] = dict(symbols)
    first, *others = formulas
    for definition in others:
        left, right = definition.split(" = ", 1)
        squared = left.endswith("^2")
        found = Formula(right, known, cases).value()
        known[left.removesuffix("^2").removesuffix("[i]")] = np.sqrt(found) if squared else found
    formula, *letters = first.split(r" \qquad ")
    for letter in letters:
        left, right = letter.split(" = ", 1)
        known[left] = Formula(right, {}, {}).value()
    found = Formula(formula.split(" = ", 1)[1], known, cases).value()
    return found[:, :, 0] if found.ndim == 3 else found


def calculated(latex: str) -> tuple[float, float]:
    """What a calculator gives for the numbers of a cell's equation as they are written, and the result that it shows.

    An equation of several steps has several numbers: the one furthest from the result counts.
    """
    _, *steps = re.split(r"=|\\approx", latex)
    *found, result = [float(Formula(step, {}, {}).value()) for step in steps]
    return max(found, key=lambda one: abs(one - result), default=result), result
