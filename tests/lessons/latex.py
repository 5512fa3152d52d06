"""A reader of the lessons' formulas: it computes what a formula says, with NumPy alone, from the symbols' numbers."""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]

_SPACE = re.compile(r"(\\,|\s|\\quad)+")
_NUMBER = re.compile(r"\d+(\.\d+)?")
INDICES = "ijk"


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

    def value(self) -> Numbers:
        """What the whole text comes to."""
        found = self.sum()
        self.space()
        assert self.at == len(self.text), f"not understood: {self.text[self.at :]!r} in {self.text!r}"
        return found

    def space(self) -> None:
        if found := _SPACE.match(self.text, self.at):
            self.at = found.end()

    def takes(self, token: str) -> bool:
        self.space()
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        assert self.takes(token), f"{token!r} is missing at {self.text[self.at :]!r} in {self.text!r}"

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
            elif self.begins_a_factor():
                right = self.power()
                plain = total.ndim == 2 and right.ndim == 2  # matrices, not cells
                total = total @ right if plain else total * right
            else:
                return total

    def begins_a_factor(self) -> bool:
        self.space()
        rest = self.text[self.at :]
        ends = ("", "+", "-", ")", "]", "}", ",", "&", ">", "\\\\", r"\end", r"\cdot", r"\qquad")
        return bool(rest) and not any(end and rest.startswith(end) for end in ends)

    def power(self) -> Numbers:
        base = self.atom()
        if self.takes(r"^\top"):
            return base.T
        if self.takes("^2"):
            return base**2
        if self.takes("^{"):
            exponent = self.sum()
            self.need("}")
            if base.ndim == 0 and base == np.e:
                self.largest = exponent.max(axis=-1, keepdims=True) if exponent.ndim else exponent
                return np.asarray(np.exp(exponent - self.shift))
            return np.asarray(np.power(base, exponent))
        return base

    def group(self) -> Numbers:
        self.need("{")
        found = self.sum()
        self.need("}")
        return found

    def atom(self) -> Numbers:  # noqa: PLR0911, PLR0912  (one branch a sign of the formulas)
        self.space()
        if self.takes("("):
            found = self.sum()
            self.need(")")
            return found
        if self.text[self.at] == "{":
            return self.group()
        if self.takes(r"\frac"):
            start = self.at
            above, below = self.group(), self.group()
            if np.any(below == 0) and np.any(self.largest < -700):
                # Too small for float64: the same factor is taken from all exponentials, which changes no quotient.
                self.at, self.shift = start, np.where(np.isfinite(self.largest), self.largest, 0.0)
                above, below = self.group(), self.group()
                self.shift = np.zeros(())
            with np.errstate(invalid="ignore"):
                return above / below
        if self.takes(r"\sqrt"):
            return np.sqrt(self.group())
        if self.takes(r"\tanh("):
            found = np.tanh(self.sum())
            self.need(")")
            return found
        if self.takes(r"\sum_k"):
            return self.product().sum(axis=2, keepdims=True)
        if self.takes(r"\max_k"):
            return self.product().max(axis=2, keepdims=True)
        if self.takes(r"\max("):
            return functools.reduce(np.maximum, self.parts(")"))
        if self.takes(r"\ln("):
            (found,) = self.parts(")")
            return np.log(found)
        if self.takes(r"\operatorname{erf}("):
            (found,) = self.parts(")")
            return np.asarray(np.vectorize(math.erf)(found))
        if self.takes(r"\mathbf{1}("):
            found = self.sum()
            self.need("> 0)")
            return np.asarray(found > 0, dtype=float)
        if self.takes(r"\infty"):
            return np.array(np.inf)
        if self.takes(r"\text{undefined}"):
            return np.array(np.nan)
        if self.takes(r"\begin{cases}"):
            return self.conditions()
        if self.takes("["):
            return np.concatenate(self.parts("]"), axis=1)
        for name in self.names:
            if self.text.startswith(name, self.at):
                self.at += len(name)
                return self.indexed(np.asarray(self.symbols[name], dtype=float))
        if digits := _NUMBER.match(self.text, self.at):
            self.at = digits.end()
            return np.array(float(digits.group()))
        if self.takes("e"):
            assert self.text[self.at] == "^"
            return np.array(np.e)
        raise AssertionError(f"not understood: {self.text[self.at :]!r} in {self.text!r}")

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
        if names == ["i"]:
            assert matrix.shape[1] == 1, "one index i names the rows of one column"
            matrix = matrix[:, 0]
        elif len(names) == 1:
            assert matrix.shape[0] == 1, "one index names the columns of one row"
            matrix = matrix[0]
        shape = [1, 1, 1]
        for name, size in zip(names, matrix.shape, strict=True):
            shape[INDICES.index(name)] = size
        return matrix.reshape(shape)

    def conditions(self) -> Numbers:
        result: Numbers | None = None
        while not self.takes(r"\end{cases}"):
            value = self.sum()
            end = min(at for at in (self.text.find(r"\\", self.at), self.text.find(r"\end", self.at)) if at >= 0)
            where = np.asarray(self.cases[self.text[self.at : end].strip().removeprefix("&").strip()])
            self.at = end
            self.takes(r"\\")
            shape = np.broadcast_shapes(value.shape, (*where.shape, 1))
            value = np.where(where[..., None], np.broadcast_to(value, shape), np.nan)
            result = value if result is None else np.where(where[..., None], value, result)
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
