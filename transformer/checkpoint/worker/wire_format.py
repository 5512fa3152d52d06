"""What a worker process and the server say to each other: a JSON table, then blocks of bytes whose sizes it names.

Nothing is ever unpickled, and no size is believed before it is checked: a worker that an untrusted file has taken over
can send wrong numbers and nothing more.
"""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BufferedIOBase
from socket import socket
from typing import Any

import torch
from torch import Tensor

from ...errors import CheckpointError
from ...messages import NoMessageError, unpacked_message
from ...safe.limits import MEGABYTE, ReadLimits
from ...safe.tensors import DTYPES, ITEM_BYTES, StorageInfo, cut, declared_tensor, is_count

HEADER_BYTES = 16 * MEGABYTE
"""The most that the table of one message may have: 20,000 tensors with names of 700 characters."""

CHUNK_BYTES = MEGABYTE
_LENGTH_BYTES = 8

Block = memoryview | bytes | bytearray | BufferedIOBase
"""Bytes to send: in memory, or an open file that is read while it is sent."""

Wait = Callable[[], float | None]
"""How long one read or write may wait; it raises TimeoutError once the whole has taken too long."""


class GarbledError(Exception):
    """The other side said what cannot be understood, or more than it may: all that receives or unpacks raises it."""


def forever() -> None:
    """Wait as long as it takes: the worker's side, which the server ends."""


def send(channel: socket, header: Mapping[str, Any], blocks: Sequence[Block] = (), wait: Wait = forever) -> None:
    """Send a table and its blocks; OSError where the other side is gone, or a file changed its length."""
    sizes = [b.seek(0, io.SEEK_END) if isinstance(b, BufferedIOBase) else len(b) for b in blocks]
    text = json.dumps({**header, "blocks": sizes}).encode()
    _send(channel, len(text).to_bytes(_LENGTH_BYTES, "little") + text, wait)
    for block, size in zip(blocks, sizes, strict=True):
        pieces: Iterable[memoryview | bytes | bytearray] = () if isinstance(block, BufferedIOBase) else (block,)
        if isinstance(block, BufferedIOBase):
            block.seek(0)
            pieces = iter(partial(block.read, CHUNK_BYTES), b"")
        sent = 0
        for piece in pieces:
            _send(channel, piece, wait)
            sent += len(piece)
        if sent != size:
            raise OSError(f"{sent:,} bytes were read of {size:,}")


def receive_header(channel: socket, wait: Wait = forever) -> dict[str, Any] | None:
    """The next table; None when the other side has ended."""
    start = receive(channel, _LENGTH_BYTES, wait)
    if start is None:
        return None
    length = int.from_bytes(start, "little")
    if length > HEADER_BYTES:
        raise GarbledError(f"a table of {length:,} bytes")
    text = receive(channel, length, wait)
    if text is None:
        return None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GarbledError(f"no JSON ({type(error).__name__})") from error
    sizes = header.get("blocks") if isinstance(header, dict) else None
    if not isinstance(sizes, list) or not all(map(is_count, sizes)):
        raise GarbledError("no table of blocks")
    return dict(header)


def receive_blocks(channel: socket, header: Mapping[str, Any], most: int, wait: Wait = forever) -> list[bytearray]:
    """The blocks that a table names, at most `most` bytes together."""
    if sum(header["blocks"]) > most:
        raise GarbledError(f"{sum(header['blocks']):,} bytes, at most {most:,} can be meant")
    blocks = []
    for size in header["blocks"]:
        block = receive(channel, size, wait)
        if block is None:
            raise GarbledError("less than it announced")
        blocks.append(block)
    return blocks


def unpacked_error(packed_error: Any) -> CheckpointError:
    """The error that a worker reported, which is one that the library knows."""
    try:
        message = unpacked_message(packed_error)
    except NoMessageError as error:
        raise GarbledError(str(error)) from error
    return CheckpointError(message.code, **message.fields)


def packed(tensors: Mapping[str, Tensor]) -> tuple[list[list[Any]], list[memoryview]]:
    """Tensors as descriptions and the blocks of memory that they are cut from, each block once: ties stay ties.

    The blocks are views of the tensors' memory, which must outlive them.
    """
    blocks = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in tensors.values() if one.numel()}
    places = {start: place for place, start in enumerate(blocks)}
    described = []
    for name, one in tensors.items():
        place = places[one.untyped_storage().data_ptr()] if one.numel() else -1
        dtype, offset = str(one.dtype).removeprefix("torch."), one.storage_offset() if one.numel() else 0
        described.append([name, dtype, list(one.shape), list(one.stride()), place, offset])
    return described, [torch.empty(0, dtype=torch.uint8).set_(block).numpy().data for block in blocks.values()]


def unpacked(described: Any, blocks: Sequence[bytearray], limits: ReadLimits) -> dict[str, Tensor]:
    """The tensors that were described, over the blocks' own memory; none reaches outside of its block."""
    if not isinstance(described, list) or len(described) > limits.tensors:
        raise GarbledError("no table of tensors")
    found = dict[str, Tensor]()
    for entry in described:
        try:
            name, kind, shape, strides, place, offset = entry
            block = blocks[place] if is_count(place) else bytearray()
            storage = StorageInfo("", kind, len(block) // ITEM_BYTES[kind])
            info = declared_tensor(storage, offset, tuple(shape), tuple(strides), source="", limits=limits)
        except (TypeError, ValueError, LookupError, CheckpointError) as error:
            raise GarbledError("a tensor that is no tensor, or reaches outside of its block") from error
        if not isinstance(name, str) or len(name) > limits.name_characters or name in found:
            raise GarbledError("a tensor without a name of its own")
        numbers = torch.frombuffer(block, dtype=DTYPES[kind], count=storage.numel) if storage.numel else torch.empty(0)
        if kind == "bool" and storage.numel and int(numbers.view(torch.uint8).max()) > 1:
            raise GarbledError("yes and no written as something else")
        found[name] = cut(numbers, info)
    return found


def _send(channel: socket, data: bytes | memoryview | bytearray, wait: Wait) -> None:
    rest = memoryview(data)
    while rest:
        channel.settimeout(wait())
        with suppress(TimeoutError):  # `wait` says when it was too long
            rest = rest[channel.send(rest[:CHUNK_BYTES]) :]


def receive(channel: socket, n_bytes: int, wait: Wait) -> bytearray | None:
    """So many bytes; None if the other side ends before."""
    data = bytearray()
    while len(data) < n_bytes:
        channel.settimeout(wait())
        try:
            with suppress(TimeoutError):  # `wait` says when it was too long
                chunk = channel.recv(min(CHUNK_BYTES, n_bytes - len(data)))
                if not chunk:
                    return None
                data += chunk
        except ConnectionError:
            return None
    return data
