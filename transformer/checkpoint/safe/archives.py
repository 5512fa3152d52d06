"""torch's file format: a zip archive of one pickle and one entry for each block of numbers.

The table of contents is held against the file before anything is taken out, so that a bomb, a path trick or a wrong
size is refused here. Every entry must be stored as it is: torch never compresses.
"""

import struct
import zipfile
from dataclasses import dataclass
from io import BufferedIOBase

from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.refusal import SAVE_WEIGHTS, refusal

ARCHIVE_START = b"PK\x03\x04"
_ENCRYPTED = 0x1
_UTF8 = 0x800
_LOCAL_HEADER = struct.Struct("<4s2xHH16xHH")  # signature, flags, method, length of name, length of extra
_END = b"PK\x05\x06"
_END_BYTES = 22
_PROGRAM = "data.pkl"


@dataclass(frozen=True)
class Archive:
    """The pickle of a torch file, and the size of each block of numbers by key."""

    program: bytes
    blocks: dict[str, int]


def open_archive(handle: BufferedIOBase, size: int, source: str, limits: ReadLimits) -> Archive:
    """Check the whole table of contents, then read the pickle (and only it).

    Raises:
        CheckpointError: the archive is damaged, is no torch checkpoint, or is built to mislead.
    """
    handle.seek(max(0, size - _END_BYTES))
    if not handle.read(_END_BYTES).startswith(_END):
        raise refusal(source, "its archive has no table of contents at its end: it is cut off, or something follows it")
    try:
        with zipfile.ZipFile(handle) as archive:
            entries = archive.infolist()
            _check_count(len(entries), source, limits)
            root = _check_names([entry.filename for entry in entries], source, limits)
            _check_entries(entries, handle, size, source)
            sizes = {entry.filename.removeprefix(root): entry.file_size for entry in entries}
            if sizes[_PROGRAM] > limits.pickle_bytes:
                reason = f"its pickle has {sizes[_PROGRAM]:,} bytes, at most {limits.pickle_bytes:,} are read"
                raise refusal(source, reason, SAVE_WEIGHTS)
            program = archive.read(root + _PROGRAM)
    except (zipfile.BadZipFile, struct.error, EOFError, RuntimeError, UnicodeError) as error:
        raise refusal(source, f"it is a damaged or cut-off zip archive ({error})") from error
    blocks = {name.removeprefix("data/"): n_bytes for name, n_bytes in sizes.items() if name.startswith("data/")}
    return Archive(program, blocks)


def _check_count(count: int, source: str, limits: ReadLimits) -> None:
    if count > limits.archive_entries:
        reason = f"its archive has {count:,} entries, at most {limits.archive_entries:,} are read"
        raise refusal(source, reason, SAVE_WEIGHTS)


def _check_names(names: list[str], source: str, limits: ReadLimits) -> str:
    """The one folder in which all entries lie."""
    roots = {name.partition("/")[0] for name in names}
    for name in names:
        parts = name.split("/")
        if not all(part not in {"", ".", ".."} for part in parts) or "\\" in name or ":" in parts[0] or "\0" in name:
            raise refusal(source, f"its archive holds the path {name!r:.80}, which leads elsewhere")
        if len(name) > limits.name_characters:
            raise refusal(source, f"its archive holds a name of {len(name):,} characters")
    if len(set(names)) < len(names):
        raise refusal(source, "its archive holds two entries of one name")
    root = f"{roots.pop()}/" if len(roots) == 1 else ""
    if f"{root}constants.pkl" in names:
        remedy = "save the weights of the original model instead: torch.save(model.state_dict(), path)"
        raise refusal(source, "it is a TorchScript program, and reading a checkpoint runs nothing", remedy)
    if not root or root + _PROGRAM not in names:
        reason = f"it is a zip archive, but no torch checkpoint (no single folder with {_PROGRAM})"
        raise refusal(source, reason, SAVE_WEIGHTS)
    return root


def _check_entries(entries: list[zipfile.ZipInfo], handle: BufferedIOBase, size: int, source: str) -> None:
    """Every entry is stored, named alike in both of its headers, inside the file, and shares no byte with another."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        what = f"the entry {entry.filename!r:.80} of its archive"
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise refusal(source, f"{what} is compressed, which torch never does", SAVE_WEIGHTS)
        if entry.flag_bits & _ENCRYPTED:
            raise refusal(source, f"{what} is encrypted", SAVE_WEIGHTS)
        if entry.header_offset < 0:
            raise refusal(source, f"{what} would start before the file: it is cut off")
        handle.seek(entry.header_offset)
        signature, flags, method, name_length, extra_length = _LOCAL_HEADER.unpack(handle.read(_LOCAL_HEADER.size))
        name = handle.read(name_length).decode("utf-8" if flags & _UTF8 else "cp437")
        if (signature, method, name) != (ARCHIVE_START, zipfile.ZIP_STORED, entry.orig_filename):
            raise refusal(source, f"{what} is described differently in its two headers")
        start = entry.header_offset + _LOCAL_HEADER.size + name_length + extra_length
        if entry.header_offset < end or start + entry.file_size > size:
            raise refusal(source, f"{what} overlaps another or ends past the file")
        end = start + entry.file_size
