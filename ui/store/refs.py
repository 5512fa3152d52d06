"""Which checkpoint is meant, and whether files are the same as before.

This is the one place where a name from a list or an address is read. It says where a checkpoint comes from by how it
starts: `multi30k-en-de` shipped with the app, `mine/model.pt` lies in the user's folder, `upload/model` was uploaded in
this session, and so was `record/run`, the file of a record. `multi30k-en-de@000400` is a snapshot of a shipped
checkpoint's training.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

AT = "@"
"""Parts a shipped checkpoint's name from the snapshot of its training that is meant."""

Answers = tuple[tuple[str, Any], ...]
"""Answers about a file: names and values, sorted."""

_SEEN: ContextVar[dict[tuple[str, Path], Any] | None] = ContextVar("seen", default=None)
"""What this run found out about folders already; None outside of `one_look`."""


class RefSource(Enum):
    """Where a checkpoint comes from; the value is what its name starts with."""

    SHIPPED = ""
    USER_FOLDER = "mine/"
    UPLOAD = "upload/"
    RECORD = "record/"


@dataclass(frozen=True)
class CheckpointRef:
    """One checkpoint: its origin, its name there, and the snapshot of its training that is meant ("" for the last).

    `str` of it is what stands in lists and addresses, and `parse` reads that again.
    """

    origin: RefSource
    name: str
    snapshot: str = ""

    @classmethod
    def parse(cls, text: str) -> "CheckpointRef":
        """What a name from a list or an address means; nothing says that there is such a checkpoint."""
        for origin in (RefSource.USER_FOLDER, RefSource.UPLOAD, RefSource.RECORD):
            if text.startswith(origin.value):
                return cls(origin, text.removeprefix(origin.value))
        name, _, snapshot = text.partition(AT)
        return cls(RefSource.SHIPPED, name, snapshot)

    def __str__(self) -> str:
        return f"{self.origin.value}{self.name}{AT if self.snapshot else ''}{self.snapshot}"

    @property
    def private(self) -> bool:
        """Whether it belongs to one session, and with it all that is computed from it."""
        return self.origin in (RefSource.UPLOAD, RefSource.RECORD)

    @property
    def base(self) -> "CheckpointRef":
        """The checkpoint whose training this is a snapshot of; itself where it is none."""
        return replace(self, snapshot="")


@dataclass(frozen=True)
class Revision:
    """A checkpoint as it is now: `stamp` changes when its files do, and what its user answered about them stands by it.

    It stands in the key of every cached result, so the cache knows from the key whose the result is.
    """

    ref: CheckpointRef
    stamp: int
    answers: Answers = ()


@contextmanager
def one_look() -> Iterator[None]:
    """Inside, a folder is looked at once: a run of a page asks a hundred times, and should see one state."""
    before = _SEEN.set({} if _SEEN.get() is None else _SEEN.get())
    try:
        yield
    finally:
        _SEEN.reset(before)


def once(what: str, folder: Path, look: Callable[[], T]) -> T:
    """What `look` finds out about a folder, by what it is called; inside of `one_look` it is asked once."""
    seen = _SEEN.get()
    if seen is None:
        return look()
    if (what, folder) not in seen:
        seen[what, folder] = look()
    found: T = seen[what, folder]
    return found


def stamp_of_folder(folder: Path) -> int:
    """The stamp of the files that lie in a folder itself.

    Raises:
        OSError: it cannot be read.
    """

    def look() -> int:
        with os.scandir(folder) as entries:
            return stamp_of(sorted(Path(entry.path) for entry in entries if entry.is_file()))

    return once("stamp", folder, look)


def stamp_of(files: Iterable[Path]) -> int:
    """Another number once one of some files is written, replaced, renamed, added or taken away.

    A file that was put in the place of another with its time and its size (`cp -p`) has another time of change.

    Raises:
        OSError: one of them is not there.
    """
    seen = ((file.name, file.stat()) for file in files)
    return hash(tuple((name, found.st_mtime_ns, found.st_ctime_ns, found.st_size) for name, found in seen))
