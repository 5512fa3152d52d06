"""Types and shapes of signatures are executed in these tests, in each kind of function."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from tests import shapes
from transformer.layers.masks import padding


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
