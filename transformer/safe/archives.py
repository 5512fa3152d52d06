"""torch's file format: a zip archive of one pickle and one entry for each block of numbers.

An archive is read exactly as torch.save writes it, and no other: entries one after the other from the first byte, each
stored as it is, then the table of contents, then the end. So no byte has two meanings, and none is read that was not
checked. Sources: APPNOTE.TXT of PKWARE for the records; torch's `PyTorchStreamWriter` and the miniz that it calls for
what is in them (padding called `FB`, sizes behind the bytes, no attributes).
"""

import re
import struct
import zlib
from collections.abc import Mapping
from io import BufferedIOBase

from ..errors import CheckpointError
from ..messages import Message
from .limits import SAVE_WEIGHTS, ReadLimits, refused, shown
from .tensors import ByteRange
from .zips import END, Line, own_header, table_lines

_ENCRYPTED, _SIZES_BEHIND, _UTF8 = 0x1, 0x8, 0x800
_BIG = 0xFFFFFFFF
"""Stands where a number needs eight bytes, which then follow in an extra field."""

_LARGE_END = struct.Struct("<4sQ4xIIQQQQ4sIQI")
"""as in the end itself with eight bytes each, and the length of the record; no comment. Then its locator: signature,
disk, start of the record, number of disks"""

_LOCATOR_BYTES = 20
_EXTRA = struct.Struct("<HH")
_PADDING = struct.unpack("<H", b"FB")[0]
_LARGE = 0x0001
_BEHIND, _BEHIND_64 = struct.Struct("<4sIII"), struct.Struct("<4sIQQ")
"""signature, checksum, stored bytes, bytes"""


_SCRIPT = re.compile(rb"/(?:code/|constants\.pkl|model\.json)")
"""In the names of entries that torch.jit.save writes (of old, `model.json`), some of which it compresses."""


def _directory(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> list[tuple[str, ByteRange]]:
    """All entries by name, once every byte of the archive but their own is found to be what torch writes there."""
    try:
        table, count, table_start = _table(handle, size, source, limits)
        if _SCRIPT.search(table):
            raise refused("torchscript", source, Message("remedy_torchscript"))
        listed = _listed(table, count, source)
        return _entries(handle, listed, table_start, source)
    except (struct.error, UnicodeDecodeError) as error:
        raise refused("zip_damaged", source, error=str(error)) from error


def _table(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> tuple[bytes, int, int]:
    """The bytes of the table of contents, how many lines it has, and where it starts."""
    end_start = max(0, size - END.size)
    end = _at(handle, end_start, END.size)
    if not end.startswith(b"PK\x05\x06"):
        raise refused("zip_without_table", source)
    *_, count, length, start, _ = END.unpack(end)
    large = _at(handle, max(0, end_start - _LARGE_END.size), _LARGE_END.size)
    record, at_end = large[:12] + bytes(4) + large[16:], end_start  # four bytes name who wrote it
    if large[-_LOCATOR_BYTES:].startswith(b"PK\x06\x07"):
        at_end -= _LARGE_END.size
        *_, count, length, start, _, _, _, _ = _LARGE_END.unpack(large)
        own, counts, locator = _LARGE_END.size - _LOCATOR_BYTES - 12, (count, count, length, start), b"PK\x06\x07"
        if record != _LARGE_END.pack(b"PK\x06\x06", own, 0, 0, *counts, locator, 0, at_end, 1):
            raise _mislead(source, Message("archive_end"))
    here = min(count, 0xFFFF)
    small = END.pack(b"PK\x05\x06", 0, 0, here, here, min(length, _BIG), min(start, _BIG), 0)
    if end != small or start + length != at_end:
        raise _mislead(source, Message("archive_end"))
    if count > limits.archive_entries:
        raise refused("archive_entries", source, SAVE_WEIGHTS, found=count, most=limits.archive_entries)
    if length > limits.header_bytes:
        raise refused("archive_table_large", source, SAVE_WEIGHTS, found=length, most=limits.header_bytes)
    return _at(handle, start, length), count, start


def _listed(table: bytes, count: int, source: str) -> list[Line]:
    """Every line of the table of contents, in the order of their entries."""
    found = []
    for line in table_lines(table, count, _mislead(source, Message("archive_table"))):
        entry = _readable(line.name)
        if line.method or line.packed != line.n_bytes:
            raise refused("entry_compressed", source, SAVE_WEIGHTS, entry=entry)
        if line.flags & _ENCRYPTED:
            raise refused("entry_encrypted", source, SAVE_WEIGHTS, entry=entry)
        _, _, flags, *_, comment, disk, inside, outside, _ = line
        if flags & ~_SIZES_BEHIND != _UTF8 or inside or outside or comment or disk:
            raise _mislead(source, Message("archive_entry", entry=entry))
        n_bytes, header = _large(line.extra, line.n_bytes, line.header, source, entry)
        found.append(line._replace(n_bytes=n_bytes, header=header))
    return sorted(found, key=lambda line: line.header)


def _large(extra: bytes, n_bytes: int, header: int, source: str, entry: str) -> tuple[int, int]:
    """The size and the place of an entry, from the extra field where they need eight bytes; nothing else is there."""
    n_large = 2 * (n_bytes == _BIG) + (header == _BIG)
    expected = _EXTRA.pack(_LARGE, 8 * n_large) if n_large else b""
    if len(extra) != len(expected) + 8 * n_large or not extra.startswith(expected):
        raise _mislead(source, Message("archive_entry", entry=entry))
    numbers = list(struct.unpack_from(f"<{n_large}Q", extra, len(expected)))
    if n_bytes == _BIG:
        n_bytes, stored = numbers.pop(0), numbers.pop(0)
        if n_bytes != stored:
            raise refused("entry_compressed", source, SAVE_WEIGHTS, entry=entry)
    return n_bytes, numbers.pop(0) if header == _BIG else header


def _entries(handle: BufferedIOBase, listed: list[Line], table_start: int, source: str) -> list[tuple[str, ByteRange]]:
    """Where the bytes of each entry lie. The entries follow each other without a gap, up to the table of contents."""
    entries = []
    end = 0
    for line in listed:
        entry = _readable(line.name)
        if line.header != end:
            raise refused("entry_overlaps", source, SAVE_WEIGHTS, entry=entry)
        sizes, extra, start = own_header(handle, line, source)
        if sizes not in {(0, 0, 0), (line.checksum, min(line.n_bytes, _BIG), min(line.n_bytes, _BIG))}:
            raise refused("entry_differs", source, entry=entry)
        is_large = line.n_bytes >= _BIG or line.header >= _BIG
        if not _is_padding(extra, is_large=is_large):
            raise _mislead(source, Message("archive_entry", entry=entry))
        if start + line.n_bytes > table_start:
            raise refused("entry_past_file", source, entry=entry)
        end = start + line.n_bytes
        if line.flags & _SIZES_BEHIND:
            behind = _BEHIND_64 if is_large else _BEHIND
            if _at(handle, end, behind.size) != behind.pack(b"PK\x07\x08", line.checksum, line.n_bytes, line.n_bytes):
                raise refused("entry_differs_behind", source, entry=entry)
            end += behind.size
        entries.append((line.name.decode(), ByteRange(start, line.n_bytes, line.checksum)))
    if end != table_start:
        raise refused("archive_gap", source, SAVE_WEIGHTS)
    return entries


def _is_padding(extra: bytes, *, is_large: bool) -> bool:
    """Whether an extra field holds torch's padding alone: `FB`, a length, and that many times `Z`."""
    if is_large and len(extra) >= _EXTRA.size and _EXTRA.unpack_from(extra)[0] == _LARGE:
        extra = extra[_EXTRA.size + _EXTRA.unpack_from(extra)[1] :]
    if not extra:
        return True
    length = len(extra) - _EXTRA.size
    return length >= 0 and extra == _EXTRA.pack(_PADDING, length) + b"Z" * length


def _at(handle: BufferedIOBase, start: int, length: int) -> bytes:
    handle.seek(start)
    return handle.read(length)


def _readable(name: bytes) -> str:
    return shown(name[:100].decode(errors="replace"))


def _mislead(source: str, what: str) -> CheckpointError:
    return refused("not_as_torch_writes", source, SAVE_WEIGHTS, what=what)


ARCHIVE_START = b"PK\x03\x04"
_PROGRAM, _VERSION, _BYTE_ORDER = "data.pkl", "version", "byteorder"
_VERSIONS = frozenset(str(version).encode() for version in range(1, 11))
_SMALL = 16


def open_archive(
    handle: BufferedIOBase, size: int, source: str, limits: ReadLimits
) -> tuple[bytes, dict[str, ByteRange]]:
    """The pickle of a torch file, and where the bytes of each block of numbers lie, by key.

    The whole table of contents is checked before the pickle (and only it) is read.

    Raises:
        CheckpointError: the archive is damaged, is no torch checkpoint, or is built to mislead.
    """
    entries = _directory(handle, size, source, limits)
    root = _check_names([name for name, _ in entries], source, limits)
    places = {name.removeprefix(root): place for name, place in entries}
    if (found := places[_PROGRAM].n_bytes) > limits.pickle_bytes:
        raise refused("pickle_large", source, SAVE_WEIGHTS, found=found, most=limits.pickle_bytes)
    program = _read(handle, _PROGRAM, places, source)
    if _VERSION in places and _small(handle, _VERSION, places, source) not in _VERSIONS:
        raise refused("archive_version", source, SAVE_WEIGHTS)
    if _BYTE_ORDER in places and _small(handle, _BYTE_ORDER, places, source) != b"little":
        raise refused("byte_order", source, SAVE_WEIGHTS)
    blocks = {name.removeprefix("data/"): place for name, place in places.items() if name.startswith("data/")}
    return program, blocks


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


def _small(handle: BufferedIOBase, name: str, places: Mapping[str, ByteRange], source: str) -> bytes:
    """One word that the archive says of itself."""
    if places[name].n_bytes > _SMALL:
        raise refused("entry_large", source, entry=shown(name), found=places[name].n_bytes)
    return _read(handle, name, places, source).strip()


def _read(handle: BufferedIOBase, name: str, places: Mapping[str, ByteRange], source: str) -> bytes:
    """The bytes of one entry. torch can be told to write no checksums: then they are 0."""
    place = places[name]
    data = _at(handle, place.start, place.n_bytes)
    if len(data) != place.n_bytes or place.checksum not in {0, zlib.crc32(data)}:
        raise refused("entry_damaged", source, entry=shown(name))
    return data
