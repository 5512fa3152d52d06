"""What a worker process and the server say to each other: a JSON table, then blocks of bytes whose sizes it names.

Nothing is ever unpickled, and no size is believed before it is checked: a worker that an untrusted file has taken over
can send wrong numbers and nothing more.
"""

import ctypes
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedIOBase
from socket import socket
from typing import Any

import torch
from torch import Tensor

from transformer.safe.declared import is_count
from transformer.safe.limits import MEGABYTE, ReadLimits

HEADER_BYTES = 16 * MEGABYTE
"""The most that the table of one message may have: 20,000 tensors with names of 700 characters."""

CHUNK_BYTES = MEGABYTE
_LENGTH_BYTES = 8

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip
"""Kinds of numbers that are handed over, by name."""

Block = memoryview | bytes | bytearray | BufferedIOBase
"""Bytes to send: in memory, or an open file that is read while it is sent."""

Wait = Callable[[], float | None]
"""How long one read or write may wait; it raises TimeoutError once the whole has taken too long."""


class GarbledError(Exception):
    """The other side said what cannot be understood, or more than it may."""


def forever() -> None:
    """Wait as long as it takes: the worker's side, which the server ends."""


def send(channel: socket, header: Mapping[str, Any], blocks: Sequence[Block] = (), wait: Wait = forever) -> None:
    """Send a table and its blocks.

    Raises:
        OSError: the other side is gone, or a file changed its length.
        TimeoutError: it took too long.
    """
    sizes = [_size(block) for block in blocks]
    text = json.dumps({**header, "blocks": sizes}).encode()
    _send(channel, len(text).to_bytes(_LENGTH_BYTES, "little") + text, wait)
    for block, size in zip(blocks, sizes, strict=True):
        sent = 0
        for chunk in chunks(block):
            _send(channel, chunk, wait)
            sent += len(chunk)
        if sent != size:
            raise OSError(f"{sent:,} bytes were read of {size:,}")


def receive_header(channel: socket, wait: Wait = forever) -> dict[str, Any] | None:
    """The next table; None when the other side has ended.

    Raises:
        GarbledError: it is none, or too long, or names blocks that are no sizes.
        TimeoutError: it took too long.
    """
    start = _receive(channel, _LENGTH_BYTES, wait)
    if start is None:
        return None
    length = int.from_bytes(start, "little")
    if length > HEADER_BYTES:
        raise GarbledError(f"a table of {length:,} bytes")
    text = _receive(channel, length, wait)
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
    """The blocks that a table names, `most` bytes together.

    Raises:
        GarbledError: there are more bytes, or fewer than were named.
        TimeoutError: it took too long.
    """
    if sum(header["blocks"]) > most:
        raise GarbledError(f"{sum(header['blocks']):,} bytes, at most {most:,} can be meant")
    blocks = []
    for size in header["blocks"]:
        block = _receive(channel, size, wait)
        if block is None:
            raise GarbledError("less than it announced")
        blocks.append(block)
    return blocks


def packed(tensors: Mapping[str, Tensor]) -> tuple[list[list[Any]], list[memoryview]]:
    """Tensors as descriptions and the blocks of memory that they are cut from, each block once: ties stay ties.

    The blocks are views of the tensors' memory, which must outlive them.
    """
    spans = {name: _span(tensor) for name, tensor in tensors.items()}
    merged: list[list[int]] = []
    for start, stop in sorted({span for span in spans.values() if span[1] > span[0]}):
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    place: dict[tuple[int, int], int] = {}
    i = 0
    for span in sorted(set(spans.values())):
        while i < len(merged) and merged[i][1] <= span[0]:
            i += 1
        place[span] = i
    described = []
    for name, tensor in tensors.items():
        dtype, shape = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
        block = place[spans[name]] if tensor.numel() else -1
        offset = tensor.data_ptr() - merged[block][0] if tensor.numel() else 0
        described.append([name, dtype, shape, list(tensor.stride()), block, offset])
    return described, [_memory(start, stop) for start, stop in merged]


def unpacked(described: Any, blocks: Sequence[bytearray], limits: ReadLimits) -> dict[str, Tensor]:
    """The tensors that were described, over the blocks' own memory.

    Raises:
        GarbledError: a description is none, or reaches outside of its block.
    """
    if not isinstance(described, list) or len(described) > limits.tensors:
        raise GarbledError("no table of tensors")
    found = {}
    for entry in described:
        if not isinstance(entry, list) or len(entry) != 6:
            raise GarbledError("a tensor that is not described")
        name, tensor = entry[0], _tensor(entry, blocks, limits)
        if not isinstance(name, str) or len(name) > limits.name_characters or name in found:
            raise GarbledError("a tensor without a name of its own")
        found[name] = tensor
    return found


def _tensor(entry: list[Any], blocks: Sequence[bytearray], limits: ReadLimits) -> Tensor:
    _, kind, shape, strides, place, offset = entry
    dtype = DTYPES.get(kind) if isinstance(kind, str) else None
    axes = isinstance(shape, list) and isinstance(strides, list) and len(shape) == len(strides) <= limits.dimensions
    if dtype is None or not axes or not all(map(is_count, (*shape, *strides, offset))) or type(place) is not int:
        raise GarbledError("a tensor that is no tensor")
    numel = math.prod(shape)
    if not numel:
        if math.prod(max(1, size) for size in shape) >= 2**40:
            raise GarbledError("an empty tensor of no sensible shape")
        return torch.empty(shape, dtype=dtype)
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if not 0 <= place < len(blocks) or offset + max(count, numel) * dtype.itemsize > len(blocks[place]):
        raise GarbledError("a tensor that reaches outside of its block")
    numbers = torch.frombuffer(blocks[place], dtype=dtype, count=count, offset=offset)
    if dtype == torch.bool and int(numbers.view(torch.uint8).max()) > 1:
        raise GarbledError("yes and no written as something else")
    return numbers.as_strided(shape, strides)


def _span(tensor: Tensor) -> tuple[int, int]:
    """Where in memory the block lies that a tensor is cut from; the same place twice for an empty one."""
    storage = tensor.untyped_storage()
    return (storage.data_ptr(), storage.data_ptr() + storage.nbytes()) if tensor.numel() else (0, 0)


def _memory(start: int, stop: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * (stop - start)).from_address(start)).cast("B")


def _size(block: Block) -> int:
    return block.seek(0, io.SEEK_END) if isinstance(block, BufferedIOBase) else len(block)


def chunks(block: Block) -> Iterator[bytes | memoryview]:
    """The bytes of a block, piece by piece, from its start."""
    if not isinstance(block, BufferedIOBase):
        yield memoryview(block)
        return
    block.seek(0)
    while chunk := block.read(CHUNK_BYTES):
        yield chunk


def _send(channel: socket, data: bytes | memoryview, wait: Wait) -> None:
    rest = memoryview(data)
    while rest:
        channel.settimeout(wait())
        try:
            sent = channel.send(rest[:CHUNK_BYTES])
        except TimeoutError:
            sent = 0  # `wait` says when it was too long
        rest = rest[sent:]


def _receive(channel: socket, n_bytes: int, wait: Wait) -> bytearray | None:
    """So many bytes; None if the other side ends before."""
    data = bytearray()
    while len(data) < n_bytes:
        channel.settimeout(wait())
        try:
            chunk = channel.recv(min(CHUNK_BYTES, n_bytes - len(data)))
            ended = not chunk
        except TimeoutError:
            chunk, ended = b"", False  # `wait` says when it was too long
        except ConnectionError:
            ended = True
        if ended:
            return None
        data += chunk
    return data
