"""A folder of a model as a ZIP: what archives hold, and nothing that is built to mislead.

Unlike torch's archives these come from any tool, so entries may be packed, and small things may stand between them.
What is read is bounded by what was checked before: the table of contents, sizes as declared, then what really comes.
Source: APPNOTE.TXT of PKWARE.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BufferedIOBase
from itertools import pairwise
from pathlib import PurePosixPath

from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.limits import ReadLimits
from transformer.safe.refusal import refused, shown

ZIP_ENDING = ".zip"
KEPT = (".json", ".txt", ".model", ".spm", ".safetensors")
"""What the files of a model's folder are called, as far as any are read."""

NESTED = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")
"""Archives inside of the archive."""

PICKLED = "pytorch_model*.bin"
"""What weights are called that come without safetensors. The reader of pickles reads them, and runs nothing."""

OTHERS = (".bin", ".pt", ".pth", ".h5", ".msgpack")
"""Weights that are not read from a folder; they are named where there are no others."""

MOST_ENTRIES, MOST_TABLE = 1_000, 1024 * 1024
"""Entries of an archive, and bytes of its table of contents: a model's folder has a few dozen."""

CHUNK = 1024 * 1024
REMEDY = Message("remedy_zip_folder")

_ENCRYPTED, _SIZES_BEHIND, _UTF8 = 0x1 | 0x40 | 0x2000, 0x8, 0x800
_STORED, _DEFLATED = 0, 8
_BIG, _BIG_COUNT = 0xFFFFFFFF, 0xFFFF
_UNIX, _KIND, _FILE, _FOLDER, _LINK = 3, 0o170000, 0o100000, 0o040000, 0o120000
_LOCAL, _CENTRAL = struct.Struct("<4s2xHH4xIIIHH"), struct.Struct("<4sxBxxHH4xIIIHHHH2xII")
_END = struct.Struct("<4sHHHHIIH")


@dataclass(frozen=True)
class ZipEntry:
    """One file: its name without the folder that it lies in, and where its bytes lie, as the table declares them."""

    name: str
    start: int
    packed: int
    n_bytes: int
    checksum: int
    is_packed: bool


@dataclass(frozen=True)
class _Listed:
    name: str
    raw: bytes
    flags: int
    method: int
    checksum: int
    packed: int
    n_bytes: int
    header: int


def zip_entries(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> list[ZipEntry]:
    """The files of a model's folder in an archive, once all that it says of itself is found possible.

    What lies in folders inside of the folder, or is of no use to a model, is passed over.

    Raises:
        CheckpointError: it is damaged or built to mislead, encrypted, too large, holds links or other archives, or no
            folder with safetensors or `PICKLED`.
    """
    try:
        table, count, table_start = _table(handle, size, source)
        listed = _listed(table, count, source)
        _check_names([one.name for one in listed], source, limits)
        starts = _starts(handle, listed, table_start, source)
    except struct.error as error:
        raise refused("zip_damaged", source, REMEDY, error=str(error)) from error
    files = {one.name: (one, start) for one, start in zip(listed, starts, strict=True) if not one.name.endswith("/")}
    folder = _folder(list(files))
    kept = {}
    for name, (one, start) in files.items():
        own = name.removeprefix(folder)
        if name.startswith(folder) and "/" not in own and is_kept(own) and own[0] != ".":
            packed = one.method == _DEFLATED
            kept[own] = ZipEntry(own, start, one.packed, one.n_bytes, one.checksum, packed)
    if any(name.endswith(".safetensors") for name in kept):
        kept = {name: entry for name, entry in kept.items() if not fnmatchcase(name, PICKLED)}
    elif not any(fnmatchcase(name, PICKLED) for name in kept):
        pickles = sorted(name for name in files if PurePosixPath(name).suffix.lower() in OTHERS)
        there = ", ".join(pickles[:3]) or Message("no_file_at_all")
        raise refused("weights_no_safetensors", source, Message("remedy_save_pretrained_again"), files=there)
    together = sum(entry.n_bytes for entry in kept.values())
    if together > limits.file_bytes:
        raise refused("zip_large", source, Message("remedy_raise_file_bytes"), found=together, most=limits.file_bytes)
    return list(kept.values())


def is_kept(name: str) -> bool:
    """Whether a file of this name in a model's folder is read."""
    return PurePosixPath(name).suffix.lower() in KEPT or fnmatchcase(name, PICKLED)


def zip_bytes(handle: BufferedIOBase, entry: ZipEntry, source: str) -> Iterator[bytes]:
    """The bytes of a file, piece by piece; never more than were declared, and what was declared in the end.

    Raises:
        CheckpointError: more or fewer come, they are damaged, or are an archive themselves.
    """
    damaged = refused("entry_damaged", source, REMEDY, entry=shown(entry.name))
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if entry.is_packed else None
    at, made, checksum = entry.start, 0, 0
    end = entry.start + entry.packed
    waiting = b""
    while at < end or waiting:
        if not waiting:
            handle.seek(at)
            waiting = handle.read(min(CHUNK, end - at))
            at += len(waiting)
            if not waiting:
                raise damaged
        if inflate is None:
            piece, waiting = waiting, b""
        else:
            try:
                piece = inflate.decompress(waiting, CHUNK)
            except zlib.error as error:
                raise damaged from error
            waiting = inflate.unconsumed_tail
            if inflate.eof and (waiting or inflate.unused_data or at < end):
                raise damaged
        if made == 0 and piece.startswith(b"PK\x03\x04") and not fnmatchcase(entry.name, PICKLED):
            raise refused("zip_nested", source, REMEDY, entry=shown(entry.name))
        made += len(piece)
        if made > entry.n_bytes:
            raise refused("zip_lies", source, REMEDY, entry=shown(entry.name), declared=entry.n_bytes)
        checksum = zlib.crc32(piece, checksum)
        yield piece
    if made != entry.n_bytes or checksum != entry.checksum or (inflate is not None and not inflate.eof):
        raise damaged


def _table(handle: BufferedIOBase, size: int, source: str) -> tuple[bytes, int, int]:
    """The table of contents, how many lines it has, and where it starts. Nothing lies between it and the end."""
    tail_start = max(0, size - _END.size - _BIG_COUNT)
    handle.seek(tail_start)
    tail = handle.read(size - tail_start)
    found = []
    at = tail.find(b"PK\x05\x06")
    while at >= 0 and at + _END.size <= len(tail):
        fields = _END.unpack_from(tail, at)
        if at + _END.size + fields[-1] == len(tail):
            found.append((tail_start + at, fields))
        at = tail.find(b"PK\x05\x06", at + 1)
    if not found:
        raise refused("zip_without_table", source, REMEDY)
    if len(found) > 1:
        raise _misleads(source, Message("archive_end"))
    end, (_, disk, table_disk, here, count, length, start, _) = found[0]
    if _BIG in {length, start} or count == _BIG_COUNT:
        raise refused("zip_large_format", source, REMEDY)
    if disk or table_disk or here != count or start + length != end:
        raise _misleads(source, Message("archive_end"))
    if count > MOST_ENTRIES or length > MOST_TABLE:
        raise refused("archive_entries", source, REMEDY, found=count, most=MOST_ENTRIES)
    handle.seek(start)
    return handle.read(length), count, start


def _listed(table: bytes, count: int, source: str) -> list[_Listed]:
    found = []
    at = 0
    for _ in range(count):
        mark, system, flags, method, checksum, packed, n_bytes, *lengths, _disk, outside, header = _CENTRAL.unpack_from(
            table, at
        )
        name_length, extra_length, comment = lengths
        at += _CENTRAL.size
        raw = table[at : at + name_length]
        at += name_length + extra_length + comment
        if mark != b"PK\x01\x02" or len(raw) < name_length:
            raise _misleads(source, Message("archive_table"))
        name = _name(raw, flags, source)
        kind = (outside >> 16) & _KIND if system == _UNIX else 0
        if kind == _LINK:
            raise refused("zip_link", source, REMEDY, entry=shown(name))
        if kind not in {0, _FILE, _FOLDER}:
            raise refused("zip_no_file", source, REMEDY, entry=shown(name))
        if flags & _ENCRYPTED:
            raise refused("entry_encrypted", source, REMEDY, entry=shown(name))
        if method not in {_STORED, _DEFLATED}:
            raise refused("zip_method", source, REMEDY, entry=shown(name), method=method)
        if _BIG in {packed, n_bytes, header}:
            raise refused("zip_large_format", source, REMEDY)
        if method == _STORED and packed != n_bytes:
            raise _misleads(source, Message("archive_entry", entry=shown(name)))
        found.append(_Listed(name, raw, flags, method, checksum, packed, n_bytes, header))
    if at != len(table):
        raise _misleads(source, Message("archive_table"))
    return found


def _name(raw: bytes, flags: int, source: str) -> str:
    try:
        return raw.decode("utf-8" if flags & _UTF8 else "cp437")
    except UnicodeDecodeError as error:
        raise refused("archive_path", source, REMEDY, path=shown(repr(raw[:80]))) from error


def _check_names(names: list[str], source: str, limits: ReadLimits) -> None:
    """Refuse names that lead out, that are no names, that stand twice, or that are those of archives."""
    for name in names:
        if len(name) > limits.name_characters:
            raise refused("archive_name_long", source, REMEDY, found=len(name))
        parts = name.removesuffix("/").split("/")
        if any(part in {"", ".", ".."} for part in parts) or not name.isprintable() or set(name) & set('\\:*?"<>|'):
            raise refused("archive_path", source, REMEDY, path=shown(name))
        if name.lower().endswith(NESTED):
            raise refused("zip_nested", source, REMEDY, entry=shown(name))
    if len({name.removesuffix("/").casefold() for name in names}) < len(names):
        raise refused("archive_name_twice", source, REMEDY)


def _starts(handle: BufferedIOBase, listed: list[_Listed], table_start: int, source: str) -> list[int]:
    """Where the bytes of each entry start; its own header says what the table says, and none lies on another."""
    starts: list[int] = []
    spans: list[tuple[int, int, str]] = []
    for one in listed:
        handle.seek(one.header)
        mark, flags, method, checksum, packed, n_bytes, name_length, extra_length = _LOCAL.unpack(
            handle.read(_LOCAL.size)
        )
        raw = handle.read(name_length)
        if (mark, flags, method, raw) != (b"PK\x03\x04", one.flags, one.method, one.raw):
            raise refused("entry_differs", source, REMEDY, entry=shown(one.name))
        said, known = (checksum, packed, n_bytes), (one.checksum, one.packed, one.n_bytes)
        if said != known and not (flags & _SIZES_BEHIND and all(a in {0, b} for a, b in zip(said, known, strict=True))):
            raise refused("entry_differs", source, REMEDY, entry=shown(one.name))
        start = one.header + _LOCAL.size + name_length + extra_length
        if start + one.packed > table_start:
            raise refused("entry_past_file", source, REMEDY, entry=shown(one.name))
        starts.append(start)
        spans.append((one.header, start + one.packed, one.name))
    spans.sort()
    for (_, end, _), (start, _, name) in pairwise(spans):
        if start < end:
            raise refused("entry_overlaps", source, REMEDY, entry=shown(name))
    return starts


def _folder(names: list[str]) -> str:
    """The folder that holds a config.json, with its stroke: the outermost one, if there is one alone."""
    found = sorted({name.removesuffix("config.json") for name in names if f"/{name}".endswith("/config.json")}, key=len)
    return found[0] if found else ""


def _misleads(source: str, why: Message) -> CheckpointError:
    return refused("zip_misleads", source, REMEDY, what=why)
