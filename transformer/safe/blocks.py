"""From checked places in a file to tensors: the bytes are copied from there, and from nowhere else."""

import math
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedIOBase

import torch
from torch import Tensor

from transformer.safe.allowed import ITEM_BYTES
from transformer.safe.declared import StorageInfo, TensorInfo
from transformer.safe.limits import ReadLimits
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown

_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}
_CHUNK_BYTES = 2**24


@dataclass(frozen=True)
class Place:
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
    places: Mapping[str, Place],
    source: str,
    *,
    is_big_endian: bool = False,
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
            read[key] = _block(handle, info.storage, places[key], source, is_big_endian=is_big_endian)
        if math.prod(info.shape):
            tensors[name] = read[key].as_strided(info.shape, info.strides, info.offset)
        else:
            tensors[name] = torch.empty(info.shape, dtype=_DTYPES[info.storage.dtype])
    return tensors


def _block(handle: BufferedIOBase, storage: StorageInfo, place: Place, source: str, *, is_big_endian: bool) -> Tensor:
    """The numbers of one block, in memory of their own: zeros, until the file's bytes are there."""
    data = torch.zeros(storage.n_bytes, dtype=torch.uint8)
    if not storage.n_bytes:
        return data.view(_DTYPES[storage.dtype])
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
    if is_big_endian != (sys.byteorder == "big"):
        data = data.reshape(storage.numel, -1).flip(1).reshape(-1)
    return data.view(_DTYPES[storage.dtype])
