"""What a file declares of its tensors, and whether it can be true: nothing here takes memory for them."""

import math
from dataclasses import dataclass, field
from typing import Any

from transformer.safe import allowed
from transformer.safe.allowed import Global
from transformer.safe.contents import Shape
from transformer.safe.limits import ReadLimits
from transformer.safe.refusal import SAVE_WEIGHTS, refused

_COUNT = 2**40
_KEY_CHARACTERS = 100
"""torch numbers its blocks, so their keys are short."""


@dataclass(frozen=True)
class StorageInfo:
    """A block of numbers that tensors are cut from."""

    key: str
    dtype: str
    numel: int

    @property
    def n_bytes(self) -> int:
        """What it takes on disk, and in memory."""
        return self.numel * allowed.ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as its file describes it: where in its block it starts, and the step along each axis, in numbers."""

    shape: Shape
    storage: StorageInfo
    offset: int
    strides: tuple[int, ...]


@dataclass(eq=False)
class Options:
    """A bag of options: what an argparse.Namespace holds."""

    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plain:
    """A torch.Size or a torch.device: allowed, and of no interest."""

    kind: Global


@dataclass(frozen=True)
class Dropped:
    """A value of a kind that is passed over, such as numpy's numbers, dates and paths; what it held is not kept."""

    kind: Global


def declared_storage(reference: Any) -> StorageInfo:
    """The block of numbers that a pickle refers to.

    Raises:
        TypeError: the reference is not one that torch writes.
    """
    if type(reference) is not tuple or len(reference) not in {5, 6}:
        raise TypeError("an external reference is not torch's")
    mark, kind, key, place, numel = reference[:5]
    if not all(isinstance(text, str) for text in (mark, key, place)) or mark != "storage":
        raise TypeError("an external reference is not torch's")
    if not isinstance(kind, Global) or kind not in allowed.STORAGES or not is_count(numel):
        raise TypeError("a block of numbers is not described as torch does")
    if len(key) > _KEY_CHARACTERS or (len(reference) == 6 and reference[5] is not None):
        raise TypeError("a block of numbers is not described as torch does")
    return StorageInfo(key, allowed.STORAGES[kind], numel)


def declared_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *, source: str, limits: ReadLimits
) -> TensorInfo:
    """A tensor as it is declared, held against the block of numbers that it is cut from.

    Raises:
        CheckpointError: it claims more numbers, or more axes, than there can be.
        ValueError, TypeError: it is not described as torch does.
    """
    if not isinstance(storage, StorageInfo) or type(shape) is not tuple or type(strides) is not tuple:
        raise TypeError("a tensor is not described as torch does")
    if len(shape) > limits.dimensions:
        raise refused("tensor_axes", source, SAVE_WEIGHTS, found=len(shape), most=limits.dimensions)
    if len(shape) != len(strides) or not all(map(is_count, (offset, *shape, *strides))):
        raise ValueError("a tensor's shape, strides or start are no sizes")
    check_shape(shape)
    numel = math.prod(shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if numel > storage.numel or (numel and last >= storage.numel):
        raise refused("tensor_past_block", source, numbers=numel, shape=str(shape), held=storage.numel)
    return TensorInfo(shape, storage, offset, strides)


def check_shape(shape: Shape) -> None:
    """Hold a shape without numbers to the same bound as others: `(2^39, 2^39, 0)` is a size for no array.

    Raises:
        ValueError: it is none that a tensor could have.
    """
    if 0 in shape and math.prod(size for size in shape if size) >= _COUNT:
        raise ValueError("a tensor's shape is no size")


def is_count(value: Any) -> bool:
    """Whether `value` is a size that a file could have."""
    return type(value) is int and 0 <= value < _COUNT
