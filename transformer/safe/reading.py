"""Reading an untrusted file: sizes and structure first, then the weights. Nothing in the file is ever run.

Three formats: safetensors; torch's zip archive; and the plain pickles that torch wrote before version 1.6. All three
end in the same two things, what the file declares of its tensors and where their bytes lie; the tensors are made from
these alone. The readers of torch and safetensors are not asked, so what a file makes of them does not matter.
"""

import io
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..messages import Message
from .archives import ARCHIVE_START, open_archive
from .contents import Contents, Shape
from .limits import DEFAULT_LIMITS, SAVE_WEIGHTS, ReadLimits, check_names, refuse_by_kind, refused, shown
from .pickles import PICKLE_START, Structure
from .tensors import ITEM_BYTES, ByteRange, StorageInfo, TensorInfo, check_repeats, is_count, is_shape, read_tensors
from .tensors import KINDS as _KINDS
from .weights import check_tree, find_settings, find_vocabularies, find_weights, other_sets

_LOOKED_AT = 512
"""Bytes at the start of a file of another kind by which it is named."""


@contextmanager
def opened(path: Path) -> Iterator[BufferedIOBase]:
    """A file that is open for the length of the block; a pipe or a device, which might never end, is none.

    Raises:
        CheckpointError: it is no regular file, or cannot be opened or read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise refused("no_regular_file", path.name, Message("remedy_give_path"))
        with path.open("rb") as handle:
            yield handle
    except OSError as error:
        raise refused("cannot_be_opened", path.name, Message("remedy_check_path"), error=error.strerror) from error


def read_stream(handle: BufferedIOBase, source: str, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """What an open checkpoint file holds (an upload, say); `source` names it in messages.

    Raises:
        CheckpointError: it is too large, damaged, asks for code, or claims more than it holds.
    """
    size = handle.seek(0, os.SEEK_END)
    if size > limits.file_bytes:
        raise refused("file_large", source, Message("remedy_raise_limit"), found=size, most=limits.file_bytes)
    handle.seek(0)
    start = handle.read(64)
    if looks_like_safetensors(start):
        header = check_header(handle, size, source, limits)
        check_repeats(header.tensors, source, limits)
        return Contents(source, read_tensors(handle, header.tensors, header.places, source), format="safetensors")
    structure = Structure(source, limits)
    if start.startswith(ARCHIVE_START):
        refuse_by_kind(start, source)
        written = "torch archive"
        declared, places = _check_archive(handle, size, structure)
    elif start.startswith(LEGACY_START):
        written = "torch pickle (before version 1.6)"
        declared, places = _check_legacy(handle, size, structure)
    else:
        raise _neither(handle, start, structure)
    check_tree(declared, source, limits)
    infos, place = find_weights(declared, source, limits)
    check_repeats(infos, source, limits)
    return Contents(
        source,
        read_tensors(handle, infos, places, source),
        find_settings(declared),
        place,
        written,
        tuple(sorted(structure.dropped)),
        other_sets(declared, infos, place),
        find_vocabularies(declared),
    )


def _neither(handle: BufferedIOBase, start: bytes, structure: Structure) -> CheckpointError:
    """Why a file that begins so is not read: what a plain pickle asks for, or what kind of file it is."""
    source = structure.source
    if start.startswith(PICKLE_START):
        handle.seek(0)
        structure.read(io.BytesIO(handle.read(structure.limits.pickle_bytes)))  # names what it asks for
        return refused("plain_pickle", source, SAVE_WEIGHTS)
    if not start:
        return refused("file_empty", source, Message("remedy_give_weights"))
    refuse_by_kind(start + handle.read(_LOOKED_AT), source)
    return refused("file_of_no_kind", source, Message("remedy_give_weights"))


def _check_archive(handle: BufferedIOBase, size: int, structure: Structure) -> tuple[Any, dict[str, ByteRange]]:
    """What the archive would build, and where each block of numbers lies, once each is as long as it is said to be."""
    source = structure.source
    program, blocks = open_archive(handle, size, source, structure.limits)
    declared = structure.read(io.BytesIO(program))
    for block in structure.storages.values():
        found = blocks.get(block.key)
        if found is None or found.n_bytes != block.n_bytes:
            has = Message("none_of_them") if found is None else f"{found.n_bytes:,}"
            raise refused("block_size", source, block=shown(block.key), needed=block.n_bytes, has=has)
    return declared, blocks


LEGACY_START = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""A pickle of the number that marks these files."""

_VERSION = 1001
_COUNT_BYTES = 8


def _check_legacy(handle: BufferedIOBase, size: int, structure: Structure) -> tuple[Any, dict[str, ByteRange]]:
    """As `_check_archive`, for the plain pickles of old."""
    source = structure.source
    handle.seek(0)
    programs = io.BytesIO(handle.read(structure.limits.pickle_bytes))
    programs.seek(len(LEGACY_START))
    version = structure.read(programs)
    if type(version) is not int or version != _VERSION:
        raise refused("legacy_version", source)
    structure.read(programs)  # the sizes of the machine that wrote it
    declared = structure.read(programs)
    keys = structure.read(programs)
    if type(keys) is not list or not all(isinstance(key, str) for key in keys):
        raise refused("legacy_keys", source)
    if len(keys) != len(structure.storages) or set(keys) != structure.storages.keys():
        raise refused("legacy_blocks", source)
    places: dict[str, ByteRange] = {}
    at = programs.tell()
    for key in keys:
        block = structure.storages[key]
        handle.seek(at)
        written = int.from_bytes(handle.read(_COUNT_BYTES), "little")
        at += _COUNT_BYTES
        if written != block.numel or at + block.n_bytes > size:
            raise refused("legacy_block_size", source, block=shown(key), needed=block.numel, written=written)
        places[key] = ByteRange(at, block.n_bytes)
        at += block.n_bytes
    return declared, places


LENGTH_BYTES = 8
"""At the start of a safetensors file: the length of its JSON table of names, kinds, shapes and byte ranges.

Source: the format's specification, https://github.com/huggingface/safetensors#format.
"""

KINDS = {names[1]: dtype for dtype, names in _KINDS.items()}
"""Kinds of numbers by their names in the format."""


@dataclass(frozen=True)
class Header:
    """What a safetensors file says of itself: the tensors it holds by name, and where the bytes of each lie.

    A shared matrix is stored once, and its other names are noted (`save_model` does so): they are names here like any
    other, of the same block of numbers. A block's key is the name that it is stored under. `notes` are the file's
    `__metadata__`: texts by name.
    """

    tensors: dict[str, TensorInfo]
    places: dict[str, ByteRange]
    notes: dict[str, str]

    @property
    def shapes(self) -> dict[str, Shape]:
        """The tensors that are stored, by name; without the other names of shared ones."""
        return {name: self.tensors[name].shape for name in self.places}


def looks_like_safetensors(start: bytes) -> bool:
    """Whether a file that starts so is safetensors: a length, then an opening brace."""
    return start[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{"


def check_header(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Header:
    """Read the table and hold it against the file.

    Raises:
        CheckpointError: the table is damaged, or claims what the file does not hold.
    """
    handle.seek(0)
    length = int.from_bytes(handle.read(LENGTH_BYTES), "little")
    if length > limits.header_bytes:
        raise refused("header_large", source, found=length, most=limits.header_bytes)
    if LENGTH_BYTES + length > size:
        raise refused("header_past_file", source, found=length, size=size)
    table = parsed_table(handle.read(length), source, limits)
    notes = table.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise refused("metadata_no_texts", source)
    if not table:
        raise refused("holds_no_tensors", source, Message("remedy_save_safetensors"))
    copies = {copy: name for copy, name in notes.items() if name in table and copy not in table}
    check_names([*table, *copies], source, limits)
    start = LENGTH_BYTES + length
    infos: dict[str, TensorInfo] = {}
    places: dict[str, ByteRange] = {}
    for name, entry in table.items():
        infos[name], places[name] = _described(name, entry, start, source, limits)
    end = start
    for name, place in sorted(places.items(), key=lambda one: (one[1].start, one[1].n_bytes)):
        if place.start != end:
            raise refused("bytes_overlap", source, name=shown(name))
        end += place.n_bytes
    if end != size:
        raise refused("header_of_other_size", source, described=end, size=size)
    return Header(infos | {copy: infos[name] for copy, name in copies.items()}, places, notes)


def parsed_table(text: bytes, source: str, limits: ReadLimits) -> dict[str, Any]:
    """The JSON table of a header: of bounded size, and no name in it twice.

    Raises:
        CheckpointError: it is none.
    """
    if text.count(b"{") + text.count(b"[") > limits.header_brackets:
        raise refused("header_nested", source, SAVE_WEIGHTS, most=limits.header_brackets)

    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise refused("header_names_twice", source)
        return found

    try:
        table = json.loads(text.decode(), object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise refused("header_no_json", source, error=type(error).__name__) from error
    if not isinstance(table, dict):
        raise refused("header_no_table", source)
    return table


def _described(name: str, entry: Any, start: int, source: str, limits: ReadLimits) -> tuple[TensorInfo, ByteRange]:
    """One tensor and the place of its bytes, counted from the start of the file, if its description holds together.

    The values are JSON of any kind, nested as deep as it may be: none is shown or compared before its type is known.
    """
    if not isinstance(entry, dict):
        raise refused("tensor_not_described", source, tensor=shown(name))
    kind, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or not isinstance(offsets, list) or len(offsets) != 2:
        raise refused("tensor_not_described", source, tensor=shown(name))
    if kind not in KINDS:
        remedy = Message("remedy_save_float32")
        raise refused("tensor_kind", source, remedy, tensor=shown(name), kind=shown(kind))
    first, last = offsets
    if not isinstance(shape, list) or len(shape) > limits.dimensions or not all(map(is_count, (*shape, first, last))):
        raise refused("tensor_not_sensible", source, tensor=shown(name))
    sizes, numel = tuple(shape), math.prod(shape)
    if not is_shape(sizes):
        raise refused("tensor_not_sensible", source, tensor=shown(name))
    declared = numel * ITEM_BYTES[KINDS[kind]]
    if declared != last - first:
        raise refused("tensor_bytes", source, tensor=shown(name), numbers=numel, declared=declared, held=last - first)
    strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    info = TensorInfo(sizes, StorageInfo(name, KINDS[kind], numel), 0, strides)
    return info, ByteRange(start + first, declared)
