"""The table of contents of a zip archive, held against the archive as torch writes it, byte by byte."""

import re
import struct
from dataclasses import dataclass
from io import BufferedIOBase

from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.limits import ReadLimits
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown

_ENCRYPTED, _SIZES_BEHIND, _UTF8 = 0x1, 0x8, 0x800
_BIG = 0xFFFFFFFF
"""Stands where a number needs eight bytes, which then follow in an extra field."""

_LOCAL = struct.Struct("<4s2xHH4xIIIHH")
"""signature, flags, method, checksum, stored bytes, bytes, length of name, length of extra"""

_CENTRAL = struct.Struct("<4s4xHH4xIIIHHHHHII")
"""as above, then: length of comment, disk, internal and external attributes, start of the entry"""

_END = struct.Struct("<4sHHHHIIH")
"""signature, disk, disk of the table, entries here, entries, bytes of the table, its start, length of comment"""

_END_64 = struct.Struct("<4sQ4xIIQQQQ")
"""as above with eight bytes each, and the length of the record itself; no comment"""

_LOCATOR = struct.Struct("<4sIQI")
"""signature, disk, start of the end record, number of disks"""

_EXTRA = struct.Struct("<HH")
_PADDING = struct.unpack("<H", b"FB")[0]
_LARGE = 0x0001
_BEHIND, _BEHIND_64 = struct.Struct("<4sIII"), struct.Struct("<4sIQQ")
"""signature, checksum, stored bytes, bytes"""


_SCRIPT = re.compile(rb"/(?:code/|constants\.pkl|model\.json)")
"""In the names of entries that torch.jit.save writes (of old, `model.json`), some of which it compresses."""


@dataclass(frozen=True)
class Entry:
    """One file of the archive: its name, and where its bytes lie. A `checksum` (CRC-32) of 0 was not computed."""

    name: str
    start: int
    n_bytes: int
    checksum: int


@dataclass(frozen=True)
class _Listed:
    """One line of the table of contents."""

    name: bytes
    flags: int
    checksum: int
    n_bytes: int
    header: int

    @property
    def is_large(self) -> bool:
        """Whether its size or place needs eight bytes."""
        return self.n_bytes >= _BIG or self.header >= _BIG


def read_directory(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> list[Entry]:
    """All entries, once every byte of the archive but their own is found to be what torch writes there.

    Raises:
        CheckpointError: the archive is damaged, too large, or torch did not write it.
    """
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
    end = _at(handle, max(0, size - _END.size), _END.size)
    if not end.startswith(b"PK\x05\x06"):
        raise refused("zip_without_table", source)
    _, disk, table_disk, here, count, length, start, comment = _END.unpack(end)
    end_start = size - _END.size
    locator = _at(handle, max(0, end_start - _LOCATOR.size), _LOCATOR.size)
    if locator.startswith(b"PK\x06\x07"):
        _, locator_disk, large_start, disks = _LOCATOR.unpack(locator)
        end_start -= _LOCATOR.size + _END_64.size
        if large_start != end_start or locator_disk or disks != 1:
            raise _mislead(source, Message("archive_end"))
        mark, own, disk_64, table_disk_64, here_64, count_64, length_64, start_64 = _END_64.unpack(
            _at(handle, large_start, _END_64.size)
        )
        pairs = ((here, here_64, 0xFFFF), (count, count_64, 0xFFFF), (length, length_64, _BIG), (start, start_64, _BIG))
        if mark != b"PK\x06\x06" or own != _END_64.size - 12 or disk_64 or table_disk_64:
            raise _mislead(source, Message("archive_end"))
        if any(small != min(large, most) for small, large, most in pairs):
            raise _mislead(source, Message("archive_end"))
        here, count, length, start = here_64, count_64, length_64, start_64
    if disk or table_disk or comment or here != count or start + length != end_start:
        raise _mislead(source, Message("archive_end"))
    if count > limits.archive_entries:
        raise refused("archive_entries", source, SAVE_WEIGHTS, found=count, most=limits.archive_entries)
    if length > limits.header_bytes:
        raise refused("archive_table_large", source, SAVE_WEIGHTS, found=length, most=limits.header_bytes)
    return _at(handle, start, length), count, start


def _listed(table: bytes, count: int, source: str) -> list[_Listed]:
    """Every line of the table of contents."""
    found = []
    at = 0
    for _ in range(count):
        values = _CENTRAL.unpack_from(table, at)
        mark, flags, method, checksum, stored, n_bytes, name_length, extra_length, comment, disk, *rest = values
        inside, outside, header = rest
        at += _CENTRAL.size
        name, extra = table[at : at + name_length], table[at + name_length : at + name_length + extra_length]
        at += name_length + extra_length + comment
        if mark != b"PK\x01\x02" or len(extra) < extra_length:
            raise _mislead(source, Message("archive_table"))
        entry = _readable(name)
        if method or stored != n_bytes:
            raise refused("entry_compressed", source, SAVE_WEIGHTS, entry=entry)
        if flags & _ENCRYPTED:
            raise refused("entry_encrypted", source, SAVE_WEIGHTS, entry=entry)
        if flags & ~_SIZES_BEHIND != _UTF8 or inside or outside or comment or disk:
            raise _mislead(source, Message("archive_entry", entry=entry))
        n_bytes, header = _large(extra, n_bytes, header, source, entry)
        found.append(_Listed(name, flags, checksum, n_bytes, header))
    if at != len(table):
        raise _mislead(source, Message("archive_table"))
    return sorted(found, key=lambda entry: entry.header)


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


def _entries(handle: BufferedIOBase, listed: list[_Listed], table_start: int, source: str) -> list[Entry]:
    """Where the bytes of each entry lie. The entries follow each other without a gap, up to the table of contents."""
    entries = []
    end = 0
    for line in listed:
        entry = _readable(line.name)
        if line.header != end:
            raise refused("entry_overlaps", source, SAVE_WEIGHTS, entry=entry)
        mark, flags, method, checksum, stored, n_bytes, name_length, extra_length = _LOCAL.unpack(
            _at(handle, line.header, _LOCAL.size)
        )
        name, extra = handle.read(name_length), handle.read(extra_length)
        if (mark, flags, method, name) != (b"PK\x03\x04", line.flags, 0, line.name):
            raise refused("entry_differs", source, entry=entry)
        known = (line.checksum, min(line.n_bytes, _BIG), min(line.n_bytes, _BIG))
        if (checksum, stored, n_bytes) not in {(0, 0, 0), known}:
            raise refused("entry_differs", source, entry=entry)
        if not _is_padding(extra, is_large=line.is_large):
            raise _mislead(source, Message("archive_entry", entry=entry))
        start = line.header + _LOCAL.size + name_length + extra_length
        if start + line.n_bytes > table_start:
            raise refused("entry_past_file", source, entry=entry)
        end = start + line.n_bytes
        if flags & _SIZES_BEHIND:
            behind = _BEHIND_64 if line.is_large else _BEHIND
            if _at(handle, end, behind.size) != behind.pack(b"PK\x07\x08", line.checksum, line.n_bytes, line.n_bytes):
                raise refused("entry_differs_behind", source, entry=entry)
            end += behind.size
        entries.append(Entry(name.decode(), start, line.n_bytes, line.checksum))
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
