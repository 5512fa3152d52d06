"""What a file claims of its tensors, and whether the claim can be true: nothing here takes memory for them."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transformer.checkpoint.safe import allowed
from transformer.checkpoint.safe.allowed import Global
from transformer.checkpoint.safe.contents import Shape
from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.refusal import SAVE_WEIGHTS, refusal


class StorageInfo(NamedTuple):
    """A block of numbers that tensors are cut from."""

    key: str
    dtype: str
    numel: int

    @property
    def n_bytes(self) -> int:
        """What it takes on disk, and in memory."""
        return self.numel * allowed.ITEM_BYTES[self.dtype]


class TensorInfo(NamedTuple):
    """One tensor as its file describes it."""

    shape: Shape
    storage: StorageInfo


@dataclass(eq=False)
class Options:
    """A bag of options: what an argparse.Namespace holds."""

    values: dict[Hashable, Any] = field(default_factory=dict)


class Plain(NamedTuple):
    """A torch.Size or a torch.device: allowed, and of no interest."""

    kind: Global


def claimed_storage(reference: Any) -> StorageInfo:
    """The block of numbers that a pickle refers to.

    Raises:
        ValueError, TypeError: the reference is not one that torch writes.
    """
    if not isinstance(reference, tuple) or len(reference) not in {5, 6} or reference[0] != "storage":
        raise TypeError("an external reference is not torch's")
    _, kind, key, place, numel, *view = reference
    plain = isinstance(kind, Global) and kind in allowed.STORAGES and isinstance(key, str) and isinstance(place, str)
    if not plain or not is_count(numel) or view not in ([], [None]):
        raise TypeError("a block of numbers is not described as torch does")
    return StorageInfo(key, allowed.STORAGES[kind], numel)


def claimed_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *, source: str, limits: ReadLimits
) -> TensorInfo:
    """A tensor's claim, held against the block of numbers that it is cut from.

    Raises:
        CheckpointError: it claims more numbers, or more axes, than there can be.
        ValueError, TypeError: it is not described as torch does.
    """
    if not isinstance(storage, StorageInfo) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise TypeError("a tensor is not described as torch does")
    if len(shape) != len(strides) or not all(map(is_count, (offset, *shape, *strides))):
        raise ValueError("a tensor's shape, strides or start are no sizes")
    if len(shape) > limits.dimensions:
        raise refusal(source, f"a tensor has {len(shape)} axes, at most {limits.dimensions} are read", SAVE_WEIGHTS)
    numel = math.prod(shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if numel > storage.numel or (numel and last >= storage.numel):
        claim = f"{numel:,} numbers of shape {shape}"
        raise refusal(source, f"a tensor claims {claim} in a block that holds {storage.numel:,}")
    return TensorInfo(shape, storage)


def is_count(value: Any) -> bool:
    """Whether `value` is a size that a file could have."""
    return type(value) is int and 0 <= value < 2**40
