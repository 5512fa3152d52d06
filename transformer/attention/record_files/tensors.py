"""Tensors of a record file: written once however often they are used, and checked when they are read."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from transformer.attention.record_files.entries import Entry
from transformer.messages import Message
from transformer.safe.refusal import shown

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
MOST_AXES = 4

Check = Callable[[float, float], bool]
"""Whether a tensor may have these extremes."""


def finite(least: float, most: float) -> bool:
    """No NaN, nothing infinite."""
    return math.isfinite(least) and math.isfinite(most)


def below_infinity(least: float, most: float) -> bool:
    """No NaN, and no plus infinity: minus infinity hides a key."""
    return not math.isnan(least) and most < math.inf


class Stored:
    """The tensors that a file will hold, by name. One that is used twice is stored once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._known: dict[Any, tuple[str, Tensor]] = {}

    def put(self, name: str, tensor: Tensor | None) -> Any:
        """What stands in the table for a tensor; it is stored in the order in which its numbers lie in memory.

        A sum over numbers that lie in another order may be rounded in another way.
        """
        if tensor is None:
            return None
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if key not in self._known:
            while name in self.tensors:
                name += "+"
            self._known[key] = (name, tensor)  # which keeps its memory, so that no other tensor has its place
            self.tensors[name] = tensor.detach().permute(memory_order(tensor))
        name, order = self._known[key][0], memory_order(tensor)
        return name if order == sorted(order) else {"tensor": name, "order": order}


def memory_order(tensor: Tensor) -> list[int]:
    """The axes of a tensor from the largest step in memory to the smallest; as they are, where that leaves gaps."""
    axes = range(tensor.dim())
    if tensor.is_contiguous():
        return list(axes)
    steps = [step if size > 1 else math.inf for step, size in zip(tensor.stride(), tensor.shape, strict=True)]
    order = sorted(axes, key=lambda axis: -steps[axis])
    return order if tensor.permute(order).is_contiguous() else list(axes)


def read_tensor(
    entry: Entry,
    shape: tuple[int | None, ...],
    dtypes: tuple[torch.dtype, ...] = FLOATS,
    check: Check | None = finite,
) -> Tensor:
    """The tensor that an entry of the table names, which has this shape (None: any size from 1) and one of these kinds.

    Raises:
        CheckpointError: the file does not hold it, it is another, or `check` refuses its numbers.
    """
    tensor, name = _named(entry)
    fits = tensor.dim() == len(shape) and all(
        found == size if size is not None else found > 0 for found, size in zip(tensor.shape, shape, strict=True)
    )
    if not fits:
        found, expected = map(_sizes, (tensor.shape, shape))
        entry.file.refuse("record_tensor_shape", tensor=shown(name), place=entry.place, found=found, expected=expected)
    if tensor.dtype not in dtypes:
        kinds = tuple(str(dtype).removeprefix("torch.") for dtype in dtypes)
        found = str(tensor.dtype).removeprefix("torch.")
        entry.file.refuse("record_tensor_kind", tensor=shown(name), place=entry.place, found=found, expected=kinds)
    if check is not None and (name, check) not in entry.file.checked:
        if not check(*(float(one) for one in tensor.aminmax())):
            entry.file.refuse("record_tensor_not_finite", tensor=shown(name), place=entry.place)
        entry.file.checked.add((name, check))
    return tensor


def _sizes(shape: Iterable[int | None]) -> str:
    return " x ".join("?" if size is None else str(size) for size in shape)


def _named(entry: Entry) -> tuple[Tensor, str]:
    """The tensor in the order that was meant, and its name."""
    place, order = entry, None
    if isinstance(entry.value, dict):
        entry.table("tensor", "order")
        place = entry.at("tensor")
        order = entry.at("order").counts(MOST_AXES, MOST_AXES)
    name = place.text()
    tensor = entry.file.tensors.get(name)
    if tensor is None:
        entry.file.refuse("record_tensor_missing", place=entry.place, tensor=shown(name))
    entry.file.used.add(name)
    if order is None:
        return tensor, name
    if sorted(order) != list(range(tensor.dim())):
        entry.at("order").wrong(Message("expected_order", count=tensor.dim()))
    return tensor.permute([order.index(axis) for axis in range(len(order))]), name
