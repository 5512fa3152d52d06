"""A folder of a model as a ZIP: what archives hold, and nothing that is built to mislead; and its files, unpacked.

Unlike torch's archives these come from any tool, so entries may be packed, and small things may stand between them.
What is read is bounded by what was checked before: the table of contents, sizes as declared, then what really comes.
The files are put in a place of their own, in memory where the system has such a place, until let go.
Source: APPNOTE.TXT of PKWARE.
"""

import os
import shutil
import struct
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from io import BufferedIOBase
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import CheckpointError
from ..messages import Message
from .limits import DEFAULT_LIMITS, SAVE_AGAIN, ReadLimits, refused, shown

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

LOCAL = struct.Struct("<4s2xHH4xIIIHH")
"""signature, flags, method, checksum, packed bytes, bytes, length of name, length of extra"""

_CENTRAL = struct.Struct("<4sxBxxHH4xIIIHHHHHII")
"""as above with the system that wrote it, then: length of comment, disk, internal and external attributes, start"""

END = struct.Struct("<4sHHHHIIH")
"""signature, disk, disk of the table, entries here, entries, bytes of the table, its start, length of comment"""


class Line(NamedTuple):
    """One line of an archive's table of contents; its entry's own header starts at `header`."""

    name: bytes
    system: int
    flags: int
    method: int
    checksum: int
    packed: int
    n_bytes: int
    extra: bytes
    comment: int
    disk: int
    inside: int
    outside: int
    header: int


def table_lines(table: bytes, count: int, misled: CheckpointError) -> Iterator[Line]:
    """The lines of a table of contents, which has just so many."""
    at = 0
    for _ in range(count):
        mark, *more, name_length, extra_length, comment, disk, inside, outside, header = _CENTRAL.unpack_from(table, at)
        start, end = at + _CENTRAL.size, at + _CENTRAL.size + name_length
        name, extra, at = table[start:end], table[end : end + extra_length], end + extra_length + comment
        if mark != b"PK\x01\x02" or len(extra) < extra_length:
            raise misled
        yield Line._make((name, *more, extra, comment, disk, inside, outside, header))
    if at != len(table):
        raise misled


def own_header(
    handle: BufferedIOBase, line: Line, source: str, remedy: str = SAVE_AGAIN
) -> tuple[tuple[int, int, int], bytes, int]:
    """What stands before the bytes of an entry: checksum and sizes, an extra field, and where the bytes start.

    Raises:
        CheckpointError: it says something else than its line in the table.
    """
    handle.seek(line.header)
    mark, flags, method, *sizes, name_length, extra_length = LOCAL.unpack(handle.read(LOCAL.size))
    name, extra = handle.read(name_length), handle.read(extra_length)
    if (mark, flags, method, name) != (b"PK\x03\x04", line.flags, line.method, line.name):
        raise refused("entry_differs", source, remedy, entry=shown(line.name[:100].decode(errors="replace")))
    return (sizes[0], sizes[1], sizes[2]), extra, line.header + LOCAL.size + name_length + extra_length


def zip_entries(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> dict[str, Line]:
    """The files of a model's folder in an archive by name, once all that it says of itself is found possible.

    Their lines have `header` where their bytes start.

    What lies in folders inside of the folder, or is of no use to a model, is passed over.

    Raises:
        CheckpointError: it is damaged or built to mislead, encrypted, too large, holds links or other archives, or no
            folder with safetensors or `PICKLED`.
    """
    try:
        table, count, table_start = _table(handle, size, source)
        listed = _listed(table, count, source)
        _check_names(list(listed), source, limits)
        starts = _starts(handle, listed, table_start, source)
    except struct.error as error:
        raise refused("zip_damaged", source, REMEDY, error=str(error)) from error
    files = {name: line for name, line in listed.items() if not name.endswith("/")}
    configs = [name.removesuffix("config.json") for name in files if f"/{name}".endswith("/config.json")]
    folder = min(sorted(configs), key=len, default="")  # the outermost that holds one
    inside = {name.removeprefix(folder): name for name in files if name.startswith(folder)}
    kept = {own: files[name]._replace(header=starts[name]) for own, name in inside.items() if is_kept(own)}
    if any(name.endswith(".safetensors") for name in kept):
        kept = {name: line for name, line in kept.items() if not fnmatchcase(name, PICKLED)}
    elif not any(fnmatchcase(name, PICKLED) for name in kept):
        pickles = sorted(name for name in files if PurePosixPath(name).suffix.lower() in OTHERS)
        there = ", ".join(pickles[:3]) or Message("no_file_at_all")
        raise refused("weights_no_safetensors", source, Message("remedy_save_pretrained_again"), files=there)
    together = sum(line.n_bytes for line in kept.values())
    if together > limits.file_bytes:
        raise refused("zip_large", source, Message("remedy_raise_file_bytes"), found=together, most=limits.file_bytes)
    return kept


def is_kept(name: str) -> bool:
    """Whether a file of this name in a model's folder is read: none that is hidden, or lies in a folder of its own."""
    is_named_so = PurePosixPath(name).suffix.lower() in KEPT or fnmatchcase(name, PICKLED)
    return is_named_so and "/" not in name and name[0] != "."


def zip_bytes(handle: BufferedIOBase, name: str, line: Line, source: str) -> Iterator[bytes]:
    """The bytes of a file, piece by piece; never more than were declared, and what was declared in the end.

    Raises:
        CheckpointError: more or fewer come, they are damaged, or are an archive themselves.
    """
    damaged = refused("entry_damaged", source, REMEDY, entry=shown(name))
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if line.method == _DEFLATED else None
    handle.seek(line.header)
    left, made, checksum, waiting = line.packed, 0, 0, b""
    while left or waiting:
        if not waiting:
            waiting = handle.read(min(CHUNK, left))
            left -= len(waiting)
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
            if inflate.eof and (waiting or inflate.unused_data or left):
                raise damaged
        if made == 0 and piece.startswith(b"PK\x03\x04") and not fnmatchcase(name, PICKLED):
            raise refused("zip_nested", source, REMEDY, entry=shown(name))
        made += len(piece)
        if made > line.n_bytes:
            raise refused("zip_lies", source, REMEDY, entry=shown(name), declared=line.n_bytes)
        checksum = zlib.crc32(piece, checksum)
        yield piece
    if made != line.n_bytes or checksum != line.checksum or (inflate is not None and not inflate.eof):
        raise damaged


def _table(handle: BufferedIOBase, size: int, source: str) -> tuple[bytes, int, int]:
    """The table of contents, how many lines it has, and where it starts. Nothing lies between it and the end."""
    tail_start = max(0, size - END.size - _BIG_COUNT)
    handle.seek(tail_start)
    tail = handle.read(size - tail_start)
    found = []
    at = tail.find(b"PK\x05\x06")
    while at >= 0 and at + END.size <= len(tail):
        fields = END.unpack_from(tail, at)
        if at + END.size + fields[-1] == len(tail):
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


def _listed(table: bytes, count: int, source: str) -> dict[str, Line]:
    """The entries by name."""
    found = {}
    for line in table_lines(table, count, _misleads(source, Message("archive_table"))):
        try:
            name = line.name.decode("utf-8" if line.flags & _UTF8 else "cp437")
        except UnicodeDecodeError as error:
            raise refused("archive_path", source, REMEDY, path=shown(repr(line.name[:80]))) from error
        entry = shown(name)
        kind = (line.outside >> 16) & _KIND if line.system == _UNIX else 0
        if kind == _LINK:
            raise refused("zip_link", source, REMEDY, entry=entry)
        if kind not in {0, _FILE, _FOLDER}:
            raise refused("zip_no_file", source, REMEDY, entry=entry)
        if line.flags & _ENCRYPTED:
            raise refused("entry_encrypted", source, REMEDY, entry=entry)
        if line.method not in {_STORED, _DEFLATED}:
            raise refused("zip_method", source, REMEDY, entry=entry, method=line.method)
        if _BIG in {line.packed, line.n_bytes, line.header}:
            raise refused("zip_large_format", source, REMEDY)
        if line.method == _STORED and line.packed != line.n_bytes:
            raise _misleads(source, Message("archive_entry", entry=entry))
        if name in found:
            raise refused("archive_name_twice", source, REMEDY)
        found[name] = line
    return found


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


def _starts(handle: BufferedIOBase, listed: dict[str, Line], table_start: int, source: str) -> dict[str, int]:
    """Where the bytes of each entry start; its own header says what the table says, and none lies on another."""
    starts: dict[str, int] = {}
    spans: list[tuple[int, int, str]] = []
    for name, line in listed.items():
        sizes, _, start = own_header(handle, line, source, REMEDY)
        known = (line.checksum, line.packed, line.n_bytes)
        behind = line.flags & _SIZES_BEHIND and all(a in {0, b} for a, b in zip(sizes, known, strict=True))
        if sizes != known and not behind:
            raise refused("entry_differs", source, REMEDY, entry=shown(name))
        if start + line.packed > table_start:
            raise refused("entry_past_file", source, REMEDY, entry=shown(name))
        starts[name] = start
        spans.append((line.header, start + line.packed, name))
    spans.sort()
    for (_, end, _), (start, _, name) in pairwise(spans):
        if start < end:
            raise refused("entry_overlaps", source, REMEDY, entry=shown(name))
    return starts


def _misleads(source: str, why: Message) -> CheckpointError:
    return refused("zip_misleads", source, REMEDY, what=why)


MEMORY = Path("/dev/shm")  # noqa: S108  (folders in it are made with names that nobody can guess, for this user alone)
"""Where Linux keeps files in memory; elsewhere the folder for temporary files is used."""

PREFIX = "heedmap"

ROOM = Message("remedy_room")
"""What helps where there is no space."""


class PrivateFolder:
    """A folder that nobody else reads, called `name` inside of one with a secret name.

    It goes with `remove`, with the last reference to this, and at the end of the process. What a process that was
    killed left behind goes when the next one makes such a folder.

    Raises:
        CheckpointError: the system refuses another folder, as where there is no space left.
    """

    def __init__(self, name: str) -> None:
        with _kept(name):
            place = _place()
            sweep()
            outer = tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-", dir=place)
            self.remove = weakref.finalize(self, shutil.rmtree, outer, ignore_errors=True)
            """Let go of it; once is enough."""
            self.path = Path(outer) / (name.strip(". ") or "folder")
            self.path.mkdir()

    def put(self, name: str, pieces: Iterable[bytes | bytearray]) -> None:
        """Write a new file.

        Raises:
            ValueError: it is no plain name.
            FileExistsError: there is one already.
            CheckpointError: there is no space left for it.
        """
        if Path(name).name != name or name in {"", ".", ".."}:
            raise ValueError(f"{name!r} is no name of a file")
        with _kept(name), (self.path / name).open("xb") as file:
            for piece in pieces:
                file.write(piece)


def free_bytes() -> int:
    """How large a private folder may become at this moment."""
    try:
        return shutil.disk_usage(_place()).free
    except FileNotFoundError:  # of all places for temporary files, none takes even a byte
        return 0


def check_room(n_bytes: int, source: str) -> None:
    """Say before anything of a folder is written that there is no space for it.

    Raises:
        CheckpointError: `source` is larger than what is free.
    """
    free = free_bytes()
    if n_bytes > free:
        raise refused("folder_larger_than_free", source, ROOM, found=n_bytes, free=free)


def unpacked(
    stream: BufferedIOBase, source: str, size: int, folder: str, limits: ReadLimits = DEFAULT_LIMITS
) -> PrivateFolder:
    """The model's folder in a ZIP, as a folder of its own called `folder`.

    Raises:
        CheckpointError: the archive is refused.
    """
    if size > limits.file_bytes:
        raise refused("file_large", source, REMEDY, found=size, most=limits.file_bytes)
    entries = zip_entries(stream, size, source, limits)
    check_room(sum(line.n_bytes for line in entries.values()), source)
    found = PrivateFolder(folder)
    try:
        for name, line in entries.items():
            found.put(name, zip_bytes(stream, name, line, source))
    except BaseException:
        found.remove()
        raise
    return found


def _place() -> Path:
    return MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())


@contextmanager
def _kept(name: str) -> Iterator[None]:
    """Say what the system refuses while `name` is written, as no space or too many open files."""
    try:
        yield
    except FileExistsError:  # a name that stands twice: not the system's doing
        raise
    except OSError as error:
        raise refused("folder_not_kept", name, ROOM, reason=error.strerror or str(error)) from error


def sweep(own: bool = False) -> None:
    """Remove the folders of processes of this user that are no more; with `own` those of this process as well.

    So does a server when it starts (the number of one that was killed may be its own) and when it ends.
    """
    for folder in _place().glob(f"{PREFIX}-*-*"):
        owner = folder.name.split("-")[1]
        gone = owner.isdecimal() and (not _lives(int(owner)) or (own and int(owner) == os.getpid()))
        if gone and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)  # of another user, it stays as it is


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # another user's lives, but cannot be asked
        return not isinstance(error, ProcessLookupError)
    return True
