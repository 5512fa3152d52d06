"""Zip archives as torch.save writes them, byte for byte; and the same with any field of them turned into a lie."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

ALIGNMENT = 64
UTF8, SIZES_BEHIND = 0x800, 0x8


@dataclass(frozen=True)
class Part:
    """One entry of an archive. What is None is what torch would write."""

    name: str
    data: bytes
    flags: int | None = None
    method: int = 0
    checksum: int | None = None
    n_bytes: int | None = None
    inside: int = 0
    outside: int = 0
    comment: bytes = b""
    extra: bytes = b""
    local_name: str | None = None
    local_flags: int | None = None
    local_sizes: tuple[int, int, int] = (0, 0, 0)
    local_extra: bytes | None = None
    behind: bytes | None = None
    gap: bytes = b""
    header: int | None = None


def zipped(parts: Iterable[Part], *, comment: bytes = b"", before: bytes = b"", large_end: bool = True) -> bytes:
    """The archive of these parts."""
    out, table = bytearray(before), bytearray()
    parts = list(parts)
    for part in parts:
        name = part.name.encode()
        flags = (UTF8 | SIZES_BEHIND if part.data else UTF8) if part.flags is None else part.flags
        local_flags = flags if part.local_flags is None else part.local_flags
        checksum = zlib.crc32(part.data) if part.checksum is None else part.checksum
        n_bytes = len(part.data) if part.n_bytes is None else part.n_bytes
        header = len(out)
        local_name = name if part.local_name is None else part.local_name.encode()
        extra = part.local_extra
        if extra is None:
            padding = -(header + 30 + len(local_name) + 4) % ALIGNMENT
            extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        out += struct.pack("<4s5H3I2H", b"PK\x03\x04", 0, local_flags, part.method, 0, 0, *part.local_sizes,
                           len(local_name), len(extra))  # fmt: skip
        out += local_name + extra + part.data
        if local_flags & SIZES_BEHIND:
            behind = struct.pack("<4s3I", b"PK\x07\x08", checksum, n_bytes, n_bytes)
            out += behind if part.behind is None else part.behind
        out += part.gap
        table += struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 0, 0, flags, part.method, 0, 0, checksum, len(part.data),
                             n_bytes, len(name), len(part.extra), len(part.comment), 0, part.inside, part.outside,
                             header if part.header is None else part.header)  # fmt: skip
        table += name + part.extra + part.comment
    start, end = len(out), len(out) + len(table)
    out += table
    if large_end:
        out += struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 0x031E, 45, 0, 0, len(parts), len(parts), len(table), start)
        out += struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    out += struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, len(parts), len(parts), len(table), start, len(comment))
    return bytes(out) + comment


def parts_of(archive: bytes) -> list[Part]:
    """The parts of an archive that torch wrote."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return [Part(entry.filename, opened.read(entry)) for entry in opened.infolist()]
