"""Types and shapes of signatures are executed in these tests, in each kind of function."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from tests import shapes
from transformer.nn.masks import padding


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


@pytest.mark.parametrize(
    ("thing", "right", "wrong"),
    [
        (_product, [torch.ones(2, 3), torch.ones(3, 5)], [torch.ones(2, 3), torch.ones(4, 5)]),
        (_product, [torch.ones(2, 3), torch.ones(3, 5), 2], [torch.ones(2, 3), torch.ones(3, 5), 1]),
        (_product, [torch.ones(2, 3), torch.ones(3, 5), None], [torch.ones(2, 3), torch.ones(3, 5), "2"]),
        (_Pair, [torch.ones(2), torch.ones(2)], [torch.ones(2), torch.ones(3)]),
        (_Pair, [torch.ones(2), torch.ones(2), "a"], [torch.ones(2), torch.ones(2), 1]),
        (_length, ["a"], [7]),
        (_length, ["a"], [""]),
    ],
)
def test_what_a_signature_does_not_allow_is_refused(thing: Any, right: list[Any], wrong: list[Any]) -> None:
    checked = shapes._decorator(typechecker=beartype)(thing)
    checked(*right)
    with pytest.raises(TypeCheckError):
        checked(*wrong)


def test_signatures_of_the_library_are_executed() -> None:
    padding(torch.zeros(2, 3, dtype=torch.long), 0)
    with pytest.raises(TypeCheckError):
        padding(torch.zeros(2, 3), 0)


def test_a_function_that_is_called_often_is_checked_at_first_and_now_and_then_in_each_test() -> None:
    """A wrong call is refused where it is checked: 100 calls, then one of ten, and the same again in the next test."""

    def refused(calls: int) -> list[int]:
        found = []
        for number in range(calls):
            try:
                checked(torch.ones(3), torch.ones(3), "wrong")
            except TypeCheckError:
                found.append(number)
        return found

    def both(left: Float[Tensor, "size"], right: Float[Tensor, "size"], most: int) -> Float[Tensor, "size"]:
        return left + right

    checked = shapes._decorator(typechecker=beartype)(both)
    expected = [*range(100), 109, 119, 129]
    assert refused(131) == expected
    assert refused(9) == [8]
    shapes.begin_test()
    assert refused(131) == expected
