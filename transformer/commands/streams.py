"""Standard streams that may be closed or full: a sentence and a status instead of a traceback."""

import errno
import io
import os
import sys
from pathlib import Path
from typing import NoReturn


class ClosedStream(io.RawIOBase):
    """Stands for a stream that was closed before the start: whoever uses it is told."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def readable(self) -> bool:
        """Reading is refused when it happens."""
        return True

    def writable(self) -> bool:
        """Writing is refused when it happens."""
        return True

    def readinto(self, buffer: object) -> NoReturn:
        """Refused.

        Raises:
            OSError: always.
        """
        raise OSError(errno.EBADF, "it is closed", self.name)

    def write(self, data: object) -> NoReturn:
        """Refused.

        Raises:
            OSError: always.
        """
        raise OSError(errno.EBADF, "it is closed", self.name)


def replace_closed_streams() -> None:
    """Python has no object for a stream that was closed before the start; and the next file would take its number."""
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(ClosedStream("standard input")))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_unbuffered("standard output"), write_through=True)
    if sys.stderr is None:  # there is nowhere to say anything
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (open to the end)


def forget_output() -> None:
    """What could not be written is not tried again at the end."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def _unbuffered(name: str) -> io.BufferedWriter:
    """A writer that fails at once; text streams need no more of it than a raw stream has."""
    return ClosedStream(name)  # type: ignore[return-value]
