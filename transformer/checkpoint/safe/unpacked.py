"""The files of a model's folder in a place of their own, in memory where the system has such a place, until let go."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from io import BufferedIOBase
from pathlib import Path

from transformer.checkpoint.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.checkpoint.safe.refusal import refused
from transformer.checkpoint.safe.zips import REMEDY, zip_bytes, zip_entries

MEMORY = Path("/dev/shm")  # noqa: S108  (folders in it are made with names that nobody can guess, for this user alone)
"""Where Linux keeps files in memory; elsewhere the folder for temporary files is used."""

PREFIX = "heedmap"


class PrivateFolder:
    """A folder that nobody else reads, called `name` inside of one with a secret name.

    It goes with `remove`, with the last reference to this, and at the end of the process. What a process that was
    killed left behind goes when the next one makes such a folder.
    """

    def __init__(self, name: str) -> None:
        place = MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())
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
        """
        if Path(name).name != name or name in {"", ".", ".."}:
            raise ValueError(f"{name!r} is no name of a file")
        with (self.path / name).open("xb") as file:
            for piece in pieces:
                file.write(piece)


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
    found = PrivateFolder(folder)
    try:
        for entry in entries:
            found.put(entry.name, zip_bytes(stream, entry, source))
    except BaseException:
        found.remove()
        raise
    return found


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
