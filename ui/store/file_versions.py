"""Whether files are the same as before, without reading them."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_SEEN: ContextVar[dict[Path, int] | None] = ContextVar("seen", default=None)
"""Stamps of folders that this run asked for already; None outside of `one_look`."""


@contextmanager
def one_look() -> Iterator[None]:
    """Inside, a folder is looked at once: a run of a page asks thirty times, and should see one state."""
    before = _SEEN.set({})
    try:
        yield
    finally:
        _SEEN.reset(before)


def stamp_of_folder(folder: Path) -> int:
    """The stamp of the files that lie in a folder itself.

    Raises:
        OSError: it cannot be read.
    """
    seen = _SEEN.get()
    if seen is not None and folder in seen:
        return seen[folder]
    with os.scandir(folder) as entries:
        found = stamp_of(sorted(Path(entry.path) for entry in entries if entry.is_file()))
    if seen is not None:
        seen[folder] = found
    return found


def stamp_of(files: Iterable[Path]) -> int:
    """Another number once one of some files is written, replaced, renamed, added or taken away.

    A file that was put in the place of another with its time and its size (`cp -p`) has another time of change.

    Raises:
        OSError: one of them is not there.
    """
    seen = ((file.name, file.stat()) for file in files)
    return hash(tuple((name, found.st_mtime_ns, found.st_ctime_ns, found.st_size) for name, found in seen))
