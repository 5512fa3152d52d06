"""Reading an untrusted file: sizes and structure first, then the weights. Nothing in the file is ever run.

Three formats: safetensors; torch's zip archive; and the plain pickles that torch wrote before version 1.6. All three
end in the same two things, what the file declares of its tensors and where their bytes lie; the tensors are made from
these alone. The readers of torch and safetensors are not asked, so what a file makes of them does not matter.
"""

import io
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from transformer.messages import Message
from transformer.safe.archives import ARCHIVE_START, open_archive
from transformer.safe.beside import find_vocabularies, other_sets
from transformer.safe.blocks import Place, check_repeats, read_tensors
from transformer.safe.contents import Contents
from transformer.safe.headers import check_header, looks_like_safetensors
from transformer.safe.kinds import refuse_by_kind
from transformer.safe.legacy import LEGACY_START, check_legacy
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.pickles import PICKLE_START, Structure
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown
from transformer.safe.weights import check_tree, find_settings, find_weights

_LOOKED_AT = 512
"""Bytes at the start of a file of another kind by which it is named."""


def read_file(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """What one checkpoint file holds.

    Raises:
        CheckpointError: the file is missing, too large, damaged, asks for code, or claims more than it holds.
    """
    with opened(path) as handle:
        return read_stream(handle, path.name, limits)


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
        CheckpointError: as `read_file`.
    """
    size = handle.seek(0, os.SEEK_END)
    if size > limits.file_bytes:
        raise refused("file_large", source, Message("remedy_raise_limit"), found=size, most=limits.file_bytes)
    handle.seek(0)
    start = handle.read(64)
    if looks_like_safetensors(start):
        return _read_safetensors(handle, size, source, limits)
    if start.startswith(ARCHIVE_START):
        refuse_by_kind(start, source)
        return _read_archive(handle, size, source, limits)
    if start.startswith(LEGACY_START):
        return _read_legacy(handle, size, source, limits)
    if start.startswith(PICKLE_START):
        handle.seek(0)
        Structure(source, limits).read(io.BytesIO(handle.read(limits.pickle_bytes)))  # names what it asks for
        raise refused("plain_pickle", source, SAVE_WEIGHTS)
    if not size:
        raise refused("file_empty", source, Message("remedy_give_weights"))
    refuse_by_kind(start + handle.read(_LOOKED_AT), source)
    raise refused("file_of_no_kind", source, Message("remedy_give_weights"))


def _read_safetensors(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Contents:
    header = check_header(handle, size, source, limits)
    check_repeats(header.tensors, source, limits)
    return Contents(source, read_tensors(handle, header.tensors, header.places, source), format="safetensors")


def _read_archive(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Contents:
    archive = open_archive(handle, size, source, limits)
    structure = Structure(source, limits)
    declared = structure.read(io.BytesIO(archive.program))
    for block in structure.storages.values():
        found = archive.blocks.get(block.key)
        if found is None or found.n_bytes != block.n_bytes:
            has = Message("none_of_them") if found is None else f"{found.n_bytes:,}"
            raise refused("block_size", source, block=shown(block.key), needed=block.n_bytes, has=has)
    big = archive.is_big_endian
    kind = "torch archive"
    return _contents(handle, source, limits, declared, archive.blocks, kind, structure.dropped, is_big_endian=big)


def _read_legacy(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Contents:
    structure = Structure(source, limits)
    declared, places = check_legacy(handle, size, structure)
    kind = "torch pickle (before version 1.6)"
    return _contents(handle, source, limits, declared, places, kind, structure.dropped)


def _contents(
    handle: BufferedIOBase,
    source: str,
    limits: ReadLimits,
    declared: Any,
    places: Mapping[str, Place],
    file_format: str,
    dropped: Collection[str],
    *,
    is_big_endian: bool = False,
) -> Contents:
    """The weights among what a pickle would build, made from the checked places of their bytes."""
    check_tree(declared, source, limits)
    infos, place = find_weights(declared, source, limits)
    check_repeats(infos, source, limits)
    tensors = read_tensors(handle, infos, places, source, is_big_endian=is_big_endian)
    return Contents(
        source,
        tensors,
        find_settings(declared),
        place,
        file_format,
        tuple(sorted(dropped)),
        find_vocabularies(declared),
        other_sets(declared, infos, place),
    )
