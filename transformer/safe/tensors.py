"""What a file declares of its tensors, whether that can be true, and the tensors made from checked places in the file.

Nothing of a declaration takes memory; the bytes of a tensor are copied from its place, and from nowhere else.
"""

import math
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any

import torch
from torch import Tensor

from .contents import Shape
from .limits import SAVE_WEIGHTS, ReadLimits, refused, shown


@dataclass(frozen=True)
class Global:
    """A name that a pickle asks Python to import. No tuple, so that it cannot be taken for one of the file's."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


KINDS = {
    "float64": ("Double", "F64"),
    "float32": ("Float", "F32"),
    "float16": ("Half", "F16"),
    "bfloat16": ("BFloat16", "BF16"),
    "int64": ("Long", "I64"),
    "int32": ("Int", "I32"),
    "int16": ("Short", "I16"),
    "int8": ("Char", "I8"),
    "uint8": ("Byte", "U8"),
    "bool": ("Bool", "BOOL"),
}
"""The kinds of numbers that are read, with torch's names for a block of them and safetensors'; others are refused."""

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in KINDS}
ITEM_BYTES = {name: dtype.itemsize for name, dtype in DTYPES.items()}
STORAGES = {Global("torch", f"{names[0]}Storage"): dtype for dtype, names in KINDS.items()}

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
        return self.numel * ITEM_BYTES[self.dtype]


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
    if type(reference) is not tuple or len(reference) not in {5, 6} or not all(one is None for one in reference[5:]):
        raise TypeError("an external reference is not torch's")
    mark, kind, key, place, numel = reference[:5]
    if not all(isinstance(text, str) for text in (mark, key, place)) or mark != "storage" or len(key) > _KEY_CHARACTERS:
        raise TypeError("an external reference is not torch's")
    if not isinstance(kind, Global) or kind not in STORAGES or not is_count(numel):
        raise TypeError("a block of numbers is not described as torch does")
    return StorageInfo(key, STORAGES[kind], numel)


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
    if not is_shape(shape):
        raise ValueError("a tensor's shape is no size")
    numel = math.prod(shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if numel > storage.numel or (numel and last >= storage.numel):
        raise refused("tensor_past_block", source, numbers=numel, shape=str(shape), held=storage.numel)
    return TensorInfo(shape, storage, offset, strides)


def is_shape(shape: Shape) -> bool:
    """Whether a tensor could have this shape of counts: without numbers, `(2^39, 2^39, 0)` is a size for no array."""
    return 0 not in shape or math.prod(size for size in shape if size) < _COUNT


def is_count(value: Any) -> bool:
    """Whether `value` is a size that a file could have."""
    return type(value) is int and 0 <= value < _COUNT


_CHUNK_BYTES = 2**24


@dataclass(frozen=True)
class ByteRange:
    """Where the bytes of one block lie. A `checksum` (CRC-32) of 0 was not computed by whoever wrote the file."""

    start: int
    n_bytes: int
    checksum: int = 0


def check_repeats(declared: Mapping[str, TensorInfo], source: str, limits: ReadLimits) -> None:
    """Refuse tensors that show the file's numbers over and over: looking through them would take far longer than it.

    Raises:
        CheckpointError: together they show more than `ReadLimits.repeats` allows.
    """
    stored = sum(storage.numel for storage in {info.storage for info in declared.values()})
    all_shown = sum(math.prod(info.shape) for info in declared.values())
    if all_shown > limits.repeats * stored + limits.spare_numbers:
        raise refused("numbers_repeated", source, SAVE_WEIGHTS, tensors=len(declared), numbers=all_shown, stored=stored)


def read_tensors(
    handle: BufferedIOBase,
    declared: Mapping[str, TensorInfo],
    places: Mapping[str, ByteRange],
    source: str,
) -> dict[str, Tensor]:
    """The tensors by name. Those that are cut from one block share its memory, as they did when they were saved.

    Each was checked already: `declared_tensor` holds it against its block, the caller the block against the file.

    Raises:
        CheckpointError: the bytes of a block are not there, or are damaged.
    """
    read: dict[str, Tensor] = {}
    tensors: dict[str, Tensor] = {}
    for name, info in declared.items():
        key = info.storage.key
        if key not in read:
            read[key] = _block(handle, info.storage, places[key], source)
        tensors[name] = cut(read[key], info)
    return tensors


def cut(block: Tensor, info: TensorInfo) -> Tensor:
    """The tensor that a checked declaration cuts from its block; one without numbers needs none of it."""
    if math.prod(info.shape):
        return block.as_strided(info.shape, info.strides, info.offset)
    return torch.empty(info.shape, dtype=DTYPES[info.storage.dtype])


def _block(handle: BufferedIOBase, storage: StorageInfo, place: ByteRange, source: str) -> Tensor:
    """The numbers of one block, in memory of their own: zeros, until the file's bytes are there."""
    data = torch.zeros(storage.n_bytes, dtype=torch.uint8)
    if not storage.n_bytes:
        return data.view(DTYPES[storage.dtype])
    room = data.numpy().data
    handle.seek(place.start)
    checksum = filled = 0
    while filled < storage.n_bytes:
        count = handle.readinto(room[filled : filled + _CHUNK_BYTES])
        if not count:
            raise refused("block_cut_off", source, block=shown(storage.key))
        checksum = zlib.crc32(room[filled : filled + count], checksum)
        filled += count
    if place.checksum not in {0, checksum}:
        raise refused("block_damaged", source, block=shown(storage.key))
    if storage.dtype == "bool" and int(data.max()) > 1:
        raise refused("block_not_boolean", source, block=shown(storage.key))
    if sys.byteorder == "big":  # files are written in the other order
        data = data.reshape(storage.numel, -1).flip(1).reshape(-1)
    return data.view(DTYPES[storage.dtype])
