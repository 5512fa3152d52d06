"""torch's file format: a zip archive of one pickle and one entry for each block of numbers.

An archive is read exactly as torch.save writes it, and no other: entries one after the other from the first byte, each
stored as it is, then the table of contents, then the end. So no byte has two meanings, and none is read that was not
checked. Sources: APPNOTE.TXT of PKWARE for the records; torch's `PyTorchStreamWriter` and the miniz that it calls for
what is in them (padding called `FB`, sizes behind the bytes, no attributes).
"""

import zlib
from dataclasses import dataclass
from io import BufferedIOBase

from transformer.safe.blocks import Place
from transformer.safe.directories import Entry, read_directory
from transformer.safe.limits import ReadLimits
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown

ARCHIVE_START = b"PK\x03\x04"
_PROGRAM, _VERSION, _BYTE_ORDER = "data.pkl", "version", "byteorder"
_VERSIONS = frozenset(str(version).encode() for version in range(1, 11))
_SMALL = 16


@dataclass(frozen=True)
class Archive:
    """The pickle of a torch file, and where the bytes of each block of numbers lie, by key."""

    program: bytes
    blocks: dict[str, Place]
    is_big_endian: bool


def open_archive(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Archive:
    """Check the whole table of contents, then read the pickle (and only it).

    Raises:
        CheckpointError: the archive is damaged, is no torch checkpoint, or is built to mislead.
    """
    entries = read_directory(handle, size, source, limits)
    root = _check_names([entry.name for entry in entries], source, limits)
    by_name = {entry.name.removeprefix(root): entry for entry in entries}
    if by_name[_PROGRAM].n_bytes > limits.pickle_bytes:
        found, most = by_name[_PROGRAM].n_bytes, limits.pickle_bytes
        raise refused("pickle_large", source, SAVE_WEIGHTS, found=found, most=most)
    program = _read(handle, by_name[_PROGRAM], source)
    if _VERSION in by_name and _small(handle, by_name[_VERSION], source) not in _VERSIONS:
        raise refused("archive_version", source, SAVE_WEIGHTS)
    order = _small(handle, by_name[_BYTE_ORDER], source) if _BYTE_ORDER in by_name else b"little"
    if order not in {b"little", b"big"}:
        raise refused("byte_order", source, SAVE_WEIGHTS)
    blocks = {
        name.removeprefix("data/"): Place(entry.start, entry.n_bytes, entry.checksum)
        for name, entry in by_name.items()
        if name.startswith("data/")
    }
    return Archive(program, blocks, order == b"big")


def _check_names(names: list[str], source: str, limits: ReadLimits) -> str:
    """The one folder in which all entries lie."""
    roots = {name.partition("/")[0] for name in names}
    for name in names:
        parts = name.split("/")
        if len(name) > limits.name_characters:
            raise refused("archive_name_long", source, found=len(name))
        if not all(part not in {"", ".", ".."} for part in parts) or "\\" in name or ":" in parts[0] or "\0" in name:
            raise refused("archive_path", source, path=shown(name))
    if len(set(names)) < len(names):
        raise refused("archive_name_twice", source)
    root = f"{roots.pop()}/" if len(roots) == 1 else ""
    if not root or root + _PROGRAM not in names:
        raise refused("zip_but_no_checkpoint", source, SAVE_WEIGHTS, program=_PROGRAM)
    return root


def _small(handle: BufferedIOBase, entry: Entry, source: str) -> bytes:
    """One word that the archive says of itself."""
    if entry.n_bytes > _SMALL:
        raise refused("entry_large", source, entry=shown(entry.name), found=entry.n_bytes)
    return _read(handle, entry, source).strip()


def _read(handle: BufferedIOBase, entry: Entry, source: str) -> bytes:
    """The bytes of one entry. torch can be told to write no checksums: then they are 0."""
    handle.seek(entry.start)
    data = handle.read(entry.n_bytes)
    if len(data) != entry.n_bytes or entry.checksum not in {0, zlib.crc32(data)}:
        raise refused("entry_damaged", source, entry=shown(entry.name))
    return data
