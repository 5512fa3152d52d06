"""Types and shapes of signatures are executed in these tests, in each kind of function."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from heedmap.nn.masks import padding
from tests import shapes


def _product(
    left: Float[Tensor, "rows columns"], right: Float[Tensor, "columns others"], most: int | None = None
) -> Float[Tensor, "rows others"]:
    return (left @ right)[:most]


@dataclass
class _Pair:
    left: Float[Tensor, "size"]
    right: Float[Tensor, "size"]
    name: str = ""


def _length(name: str) -> int:
    return len(name) if name else None  # type: ignore[return-value]


def test_what_a_signature_does_not_allow_is_refused() -> None:
    two, three = torch.ones(2), torch.ones(3)
    left, right, other = torch.ones(2, 3), torch.ones(3, 5), torch.ones(4, 5)
    for thing, allowed, wrong in (
        (_product, [left, right], [left, other]),
        (_product, [left, right, 2], [left, right, 1]),
        (_product, [left, right, None], [left, right, "2"]),
        (_Pair, [two, two], [two, three]),
        (_Pair, [two, two, "a"], [two, two, 1]),
        (_length, ["a"], [7]),
        (_length, ["a"], [""]),
    ):
        checked: Any = shapes._decorator(typechecker=beartype)(thing)
        checked(*allowed)
        with pytest.raises(TypeCheckError):
            checked(*wrong)


def test_signatures_of_the_library_are_executed() -> None:
    padding(torch.zeros(2, 3, dtype=torch.long), 0)
    with pytest.raises(TypeCheckError):
        padding(torch.zeros(2, 3), 0)


def test_a_function_that_is_called_often_is_checked_at_first_and_now_and_then_in_each_test() -> None:
    """A wrong call is refused where it is checked: 100 calls, then one of ten, and the same again in the next test."""
    checked: Any = shapes._decorator(typechecker=beartype)(_product)

    def is_refused() -> bool:
        try:
            checked(torch.ones(2, 3), torch.ones(3, 2), 1)
        except TypeCheckError:
            return True
        return False

    expected = [*range(100), 109, 119, 129]
    assert [number for number in range(140) if is_refused()] == [*expected, 139]
    shapes.begin_test()
    assert [number for number in range(131) if is_refused()] == expected
