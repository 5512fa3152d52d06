"""Arrays that someone saved to compare with: an .npz of numpy, or any file that holds tensors by name.

An .npz is a zip archive of .npy files. Its table of contents is Python's own reader's to check; what an entry claims
of its size is held against a limit before it is unpacked, and an array is made from exactly the bytes of its entry.
"""

import io
import math
import os
import zipfile
import zlib
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from ..messages import Message
from .archives import ARCHIVE_START
from .contents import Contents
from .limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits, check_names, refused, shown
from .reading import opened, read_stream

ARRAY_LIMITS = replace(DEFAULT_LIMITS, file_bytes=256 * MEGABYTE, tensors=1_000)
"""How much of a file of arrays is read: both its bytes and what they unpack to are at most `file_bytes`."""

ENDING = ".npy"
_LOCAL_HEADER = 30
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_KINDS = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "b1"}
"""Kinds of numbers that tensors have too."""

_SAVE_ARRAYS = Message("remedy_save_arrays")
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


def read_arrays_file(path: Path, limits: ReadLimits = ARRAY_LIMITS) -> Contents:
    """The arrays of a file by name.

    Raises:
        CheckpointError: as `read_arrays`, or it cannot be opened.
    """
    with opened(path) as handle:
        return read_arrays(handle, path.name, limits)


def read_arrays(handle: BufferedIOBase, source: str, limits: ReadLimits = ARRAY_LIMITS) -> Contents:
    """The arrays of an open file by name; `source` names it in messages.

    Raises:
        CheckpointError: it is too large, damaged, no file of arrays, or claims more than it holds.
    """
    size = handle.seek(0, os.SEEK_END)
    if size > limits.file_bytes:
        raise refused("file_large", source, _SAVE_ARRAYS, found=size, most=limits.file_bytes)
    handle.seek(0)
    if not _is_npz(handle.read(_LOCAL_HEADER + limits.name_characters)):
        return read_stream(handle, source, limits)
    handle.seek(0)
    try:
        with zipfile.ZipFile(handle) as archive:
            return Contents(source, _arrays(archive, source, limits), format="npz")
    except _DAMAGED as error:
        raise refused("npz_damaged", source, _SAVE_ARRAYS, error=type(error).__name__) from error


def _is_npz(start: bytes) -> bool:
    """Whether a zip archive begins with an array; those of torch begin with a pickle."""
    length = int.from_bytes(start[26:28], "little")
    name = start[_LOCAL_HEADER : _LOCAL_HEADER + length]
    return start.startswith(ARCHIVE_START) and name.endswith(ENDING.encode())


def _arrays(archive: zipfile.ZipFile, source: str, limits: ReadLimits) -> dict[str, Tensor]:
    entries = archive.infolist()
    names = [entry.filename.removesuffix(ENDING) for entry in entries]
    check_names(names, source, limits)
    if len(set(names)) < len(names):
        raise refused("archive_name_twice", source, _SAVE_ARRAYS)
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > limits.file_bytes:
        raise refused("npz_unpacks_large", source, _SAVE_ARRAYS, found=unpacked, most=limits.file_bytes)
    found = {}
    for name, entry in zip(names, entries, strict=True):
        with archive.open(entry) as packed:
            found[name] = _array(packed.read(entry.file_size), name, source, limits)
    return found


def _array(data: bytes, name: str, source: str, limits: ReadLimits) -> Tensor:
    """One array, from exactly the bytes that its header describes."""
    stream = io.BytesIO(data)
    try:
        shape, is_fortran, dtype = _HEADERS[npy.read_magic(stream)](stream)
    except (KeyError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise refused("array_header", source, _SAVE_ARRAYS, array=shown(name)) from error
    if dtype.str[1:] not in _KINDS:
        raise refused("array_kind", source, _SAVE_ARRAYS, array=shown(name), kind=shown(str(dtype)))
    body = memoryview(data)[stream.tell() :]
    if len(shape) > limits.dimensions or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(body):
        raise refused("array_size", source, _SAVE_ARRAYS, array=shown(name), bytes=len(body))
    values = np.frombuffer(body, dtype).astype(dtype.newbyteorder("="))
    return torch.from_numpy(values.reshape(shape, order="F" if is_fortran else "C").copy(order="C"))
