"""Whether files are the same as before, without reading them."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_SEEN: ContextVar[dict[tuple[str, Path], Any] | None] = ContextVar("seen", default=None)
"""What this run found out about folders already; None outside of `one_look`."""


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
