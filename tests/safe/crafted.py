"""Files written byte by byte, as torch and safetensors write them, with any field of an archive turned into a lie."""

import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from transformer.safe.contents import Contents
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.reading import LEGACY_START, read_stream

ALIGNMENT = 64
UTF8, SIZES_BEHIND = 0x800, 0x8
PROTOCOL, STOP = b"\x80\x02", b"."


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


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    data = pickle.encode_long(value)
    return b"\x8a" + bytes([len(data)]) + data


def block(key: str, numel: int, kind: str = "FloatStorage") -> bytes:
    """A reference to a block of numbers, as torch writes it."""
    return b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + number(numel) + b"tQ"


def tensor(key: str, numel: int, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> bytes:
    """A tensor cut from a block, as torch writes it."""
    sizes, steps = (b"(" + b"".join(map(number, part)) + b"t" for part in (shape, strides))
    hooks = b"ccollections\nOrderedDict\n)R"
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n("
    return rebuild + block(key, numel) + number(offset) + sizes + steps + b"\x89" + hooks + b"tR"


def table(*entries: tuple[str, bytes]) -> bytes:
    """A pickle of a dictionary whose values are given as programs."""
    return PROTOCOL + b"}(" + b"".join(text(name) + value for name, value in entries) + b"u" + STOP


def archive(program: bytes, blocks: dict[str, bytes] | None = None, **options: Any) -> bytes:
    """A torch file with this pickle and these blocks."""
    parts = [Part("archive/data.pkl", program), Part("archive/version", b"3\n")]
    parts += [Part(f"archive/data/{key}", data) for key, data in (blocks or {}).items()]
    parts += [Part(name, data) for name, data in options.get("more", ())]
    return zipped(parts, comment=options.get("comment", b""))


def compressed(data: bytes) -> bytes:
    """A torch file with a block that is far smaller in the file than in memory."""
    small = zlib.compress(data)[2:-4]
    parts = [Part("archive/data.pkl", table(("a", b"N"))), Part("archive/data/0", small, method=8, n_bytes=len(data))]
    return zipped(parts)


def safetensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with this header, which may lie about its length."""
    written = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(written) if length is None else length) + written + data


def entry(shape: Any = (2, 3), start: Any = 0, stop: Any = 24, kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}


def calling(name: str, arguments: bytes) -> bytes:
    return table(("a", f"c{name}\n".replace(" ", "\n").encode() + arguments + b"R"))


def doubled(times: int = 60) -> bytes:
    """A tuple of twice the same tuple of twice the same tuple ...: 2^times items to print, hash or compare."""
    return b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(times))


def deep(times: int = 2_000) -> bytes:
    """A tuple in a tuple in a tuple ..."""
    return b")" + b"\x85" * times


def legacy(program: bytes, keys: bytes, *blocks: tuple[int, bytes], version: bytes = number(1001)) -> bytes:
    """A file as torch wrote it before version 1.6."""
    pickles = (version, b"}", program, keys)
    whole = LEGACY_START + b"".join(PROTOCOL + one + STOP for one in pickles)
    return whole + b"".join(count.to_bytes(8, "little") + data for count, data in blocks)


def listed(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def named(*entries: tuple[str, bytes]) -> bytes:
    """A dictionary, without the frame of a pickle."""
    return table(*entries)[len(PROTOCOL) : -len(STOP)]


def read_bytes(data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """What is read of such a file."""
    return read_stream(io.BytesIO(data), "upload.pt", limits)
