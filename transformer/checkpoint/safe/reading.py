"""Reading a stranger's file: sizes and structure first, then the weights. Nothing in the file is ever run.

Three formats: safetensors; torch's zip archive; and the plain pickles that torch wrote before version 1.6.
"""

import io
import os
import stat
from collections.abc import Mapping
from io import BufferedIOBase
from pathlib import Path
from pickle import UnpicklingError
from threading import Lock
from typing import IO, Any, cast

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from transformer.checkpoint.safe.allowed import SAFE_CLASSES
from transformer.checkpoint.safe.archives import ARCHIVE_START, open_archive
from transformer.checkpoint.safe.contents import Contents
from transformer.checkpoint.safe.headers import check_header, looks_like_safetensors
from transformer.checkpoint.safe.legacy import LEGACY_START, check_legacy
from transformer.checkpoint.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.checkpoint.safe.pickles import PICKLE_START, Structure
from transformer.checkpoint.safe.refusal import SAVE_WEIGHTS, refusal
from transformer.checkpoint.safe.weights import check_tree, find_settings, find_weights

_one_at_a_time = Lock()
"""torch keeps its list of safe classes for the whole process, so only one reader may add to it at a time."""


def read_file(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """What one checkpoint file holds.

    Raises:
        CheckpointError: the file is missing, too large, damaged, asks for code, or claims more than it holds.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise refusal(path.name, "it is no regular file", "give the path of a checkpoint file")
        with path.open("rb") as handle:
            return read_stream(handle, path.name, limits)
    except OSError as error:
        raise refusal(path.name, f"it cannot be opened ({error.strerror})", "check the path") from error


def read_stream(handle: BufferedIOBase, source: str, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """What an open checkpoint file holds (an upload, say); `source` names it in messages.

    Raises:
        CheckpointError: as `read_file`.
    """
    size = handle.seek(0, os.SEEK_END)
    if size > limits.file_bytes:
        raise refusal(
            source,
            f"it has {size:,} bytes, at most {limits.file_bytes:,} are read",
            "save the weights alone, without the optimiser's state, or raise ReadLimits.file_bytes",
        )
    handle.seek(0)
    start = handle.read(64)
    if looks_like_safetensors(start):
        return _read_safetensors(handle, size, source, limits)
    if start.startswith(ARCHIVE_START):
        return _read_archive(handle, size, source, limits)
    if start.startswith(LEGACY_START):
        return _read_legacy(handle, size, source, limits)
    if start.startswith(PICKLE_START):
        handle.seek(0)
        Structure(source, limits).read(io.BytesIO(handle.read(limits.pickle_bytes)))  # names what it asks for
        raise refusal(source, "it is a plain pickle, which torch did not write", SAVE_WEIGHTS)
    raise refusal(
        source,
        "it is neither safetensors nor a file of torch.save" if size else "it is empty",
        "give a .safetensors, .pt, .pth, .ckpt, .chkpt or .bin file of weights",
    )


def _read_safetensors(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Contents:
    header = check_header(handle, size, source, limits)
    handle.seek(0)
    try:
        tensors = safetensors.torch.load(handle.read())
    except SafetensorError as error:
        raise refusal(source, f"it is damaged ({error})") from error
    for copy, original in header.notes.items():  # save_model stores a shared matrix once and notes its other names
        if original in tensors:
            tensors.setdefault(copy, tensors[original])
    return Contents(source, tensors, format="safetensors")


def _read_archive(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Contents:
    archive = open_archive(handle, size, source, limits)
    structure = Structure(source, limits)
    claimed = structure.read(io.BytesIO(archive.program))
    for block in structure.storages.values():
        found = archive.blocks.get(block.key)
        if found != block.n_bytes:
            raise refusal(
                source,
                f"block {block.key!r:.40} should hold {block.n_bytes:,} bytes, the archive has "
                f"{'none' if found is None else f'{found:,}'}",
            )
    return _load(handle, source, limits, claimed, "torch archive")


def _read_legacy(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Contents:
    handle.seek(0)
    whole = io.BytesIO(handle.read())  # without a file's descriptor, torch does not try its older tar format
    claimed = check_legacy(whole, size, Structure(source, limits))
    return _load(whole, source, limits, claimed, "torch pickle (before version 1.6)")


def _load(handle: BufferedIOBase, source: str, limits: ReadLimits, claimed: Any, file_format: str) -> Contents:
    """Read for real what was found in order on paper; and hold the two against each other."""
    check_tree(claimed, source, limits)
    expected, place = find_weights(claimed, source, limits)
    handle.seek(0)
    try:
        with _one_at_a_time, torch.serialization.safe_globals(SAFE_CLASSES):
            loaded = torch.load(cast(IO[bytes], handle), map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError) as error:
        raise refusal(source, f"torch cannot read it ({str(error)[:200]})") from error
    found, _ = find_weights(loaded, source, limits)
    tensors: dict[str, Tensor] = {name: tensor.detach() for name, tensor in found.items()}
    _check_shapes(expected, tensors, source)
    return Contents(source, tensors, find_settings(claimed), place, file_format)


def _check_shapes(expected: Mapping[str, Any], found: Mapping[str, Tensor], source: str) -> None:
    if {name: info.shape for name, info in expected.items()} != {name: tuple(t.shape) for name, t in found.items()}:
        raise refusal(source, "its structure reads differently the second time")
