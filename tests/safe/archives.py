"""ZIP archives as torch.save writes them, byte for byte, and with any field turned into a lie; what is read of them."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from heedmap.safe.contents import Contents
from heedmap.safe.limits import DEFAULT_LIMITS, ReadLimits
from heedmap.safe.reading import read_stream

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


AS_TORCH = "not written as torch.save writes it"
TWO = "described differently"

LIES: dict[str, tuple[dict[str, Any], str]] = {
    "the bit of a directory": ({"outside": 0x10}, AS_TORCH),
    "hidden": ({"outside": 0x02}, AS_TORCH),
    "rights of Unix": ({"outside": 0o600 << 16}, AS_TORCH),
    "a directory of Unix": ({"outside": 0o040755 << 16}, AS_TORCH),
    "a link": ({"outside": 0o120777 << 16}, AS_TORCH),
    "text": ({"inside": 1}, AS_TORCH),
    "a comment": ({"comment": b"hello"}, AS_TORCH),
    "deflated": ({"method": 8}, "is compressed"),
    "sizes that differ": ({"n_bytes": 20}, "is compressed"),
    "encrypted": ({"flags": 0x809}, "is encrypted"),
    "strongly encrypted": ({"flags": 0x848}, AS_TORCH),
    "patched": ({"flags": 0x828}, AS_TORCH),
    "a name that is no UTF-8": ({"flags": 0x008}, AS_TORCH),
    "other flags before the bytes": ({"local_flags": 0x800, "behind": b""}, TWO),
    "other name before the bytes": ({"local_name": "archive/data/1"}, TWO),
    "other sizes before the bytes": ({"local_sizes": (0, 24, 20)}, TWO),
    "other checksum before the bytes": ({"local_sizes": (7, 24, 24)}, TWO),
    "other sizes behind the bytes": ({"behind": struct.pack("<4s3I", b"PK\x07\x08", 0, 24, 20)}, "behind its bytes"),
    "nothing behind the bytes": ({"behind": b""}, "behind its bytes"),
    "a checksum of other bytes": ({"checksum": 7}, "checksum is another"),
    "large sizes": ({"extra": struct.pack("<HHQQ", 1, 16, 24, 24)}, AS_TORCH),
    "a unicode name": ({"extra": struct.pack("<HHBI", 0x7075, 6, 1, 0) + b"x"}, AS_TORCH),
    "padding in the table": ({"extra": b"FB\x01\x00Z"}, AS_TORCH),
    "padding that is none": ({"local_extra": b"FB\x04\x00ZZYZ"}, AS_TORCH),
    "padding that is too short": ({"local_extra": b"FB\x09\x00ZZ"}, AS_TORCH),
    "half a field": ({"local_extra": b"FB"}, AS_TORCH),
    "times of Unix": ({"local_extra": struct.pack("<HHBI", 0x5455, 5, 1, 7)}, AS_TORCH),
    "large sizes before the bytes": ({"local_extra": struct.pack("<HHQQ", 1, 16, 24, 24)}, AS_TORCH),
    "a gap": ({"gap": b"\0" * 16}, "a gap before"),
    "a place inside another": ({"header": 30}, ""),
}
"""What is changed of one entry, and a part of the reason."""


def archives() -> Iterator[tuple[str, bytes, str]]:
    """Each lie about the entry of a block, and about the pickle's."""
    held = io.BytesIO()
    torch.save({"a": torch.zeros(6)}, held)
    whole = parts_of(held.getvalue())
    for name, (change, reason) in LIES.items():
        for place, part in enumerate(whole):
            if part.name in {"archive/data/0", "archive/data.pkl"}:
                changed = [*whole[:place], replace(part, **change), *whole[place + 1 :]]
                yield f"{part.name}: {name}", zipped(changed), reason
    named = {part.name: part for part in whole}
    for name, data, reason in (
        ("archive/version", b"99\n", "version that is not known"),
        ("archive/version", b"", "version that is not known"),
        ("archive/byteorder", b"middle", "not little endian"),
        ("archive/byteorder", b"big", "not little endian"),
        ("archive/byteorder", b"x" * 5000, "has 5,000 bytes"),
    ):
        yield f"{name} is {data[:9]!r}", zipped((named | {name: Part(name, data)}).values()), reason
    behind = zipped([*whole[:-1], replace(whole[-1], gap=b"PK\x03\x04")])
    yield "bytes behind the archive's last entry", behind, "a gap before the table of contents"
    yield "bytes before the archive's second entry", zipped(whole, before=b"PK\x03\x04" + bytes(60)), "a gap before"
    end = zipped(whole)
    for at, what in ((-4, "start"), (-8, "length"), (-12, "count"), (-18, "disk"), (-42 + 8, "place of the large end")):
        lie = bytearray(end)
        lie[at] ^= 1
        yield f"another {what} of the table", bytes(lie), ""


def read_bytes(data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """What is read of a file that holds these bytes."""
    return read_stream(io.BytesIO(data), "upload.pt", limits)
