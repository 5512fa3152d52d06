"""The files of a model's folder in a place of their own, in memory where the system has such a place, until let go."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from transformer.messages import Message
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.refusal import refused
from transformer.safe.zips import REMEDY, zip_bytes, zip_entries

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
            _sweep(place)
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
    check_room(sum(entry.n_bytes for entry in entries), source)
    found = PrivateFolder(folder)
    try:
        for entry in entries:
            found.put(entry.name, zip_bytes(stream, entry, source))
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


def _sweep(place: Path) -> None:
    """Remove the folders of processes of this user that are no more."""
    for folder in place.glob(f"{PREFIX}-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdecimal() and not _lives(int(owner)) and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)  # of another user, it stays as it is


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
