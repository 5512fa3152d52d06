"""What the server says of itself: one line an event, on its standard error, and nothing that a user typed.

    2026-11-22T08:10:11Z info checkpoint_loaded name=multi30k-en-de seconds=0.141

A line is a moment (UTC), a level, what happened, and fields; a value that is no plain word is written as JSON. What
comes from users (sentences, names of files, words of an error) is left out, unless it is asked for
(`HEEDMAP_LOG_TEXT=1`).
"""

import json
import logging
import os
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from heedmap.errors import CheckpointError, HeedmapError

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
LEVEL, TEXTS = "HEEDMAP_LOG", "HEEDMAP_LOG_TEXT"

ROOT = Path(__file__).parents[2]
FRAMES = 6
"""Places of the code that the line of an error names: those nearest to it."""

MINUTE, BYTES_A_MINUTE = 60.0, 100_000
"""How much is written down, of all that the server and its libraries say: at most 144 MB a day."""

LINE_BYTES, TRACEBACK_BYTES = 25, 5_000
"""What a line has besides its message, its moment above all; what a traceback counts for, whatever it has."""

_LOGGER = logging.getLogger("heedmap")
_WORD = re.compile(r"[\w./:@%+<-]+", re.ASCII)


def begin() -> None:
    """Write events from now on, and errors as one line each instead of Streamlit's tracebacks.

    Raises:
        CheckpointError: the level that is set is none.
    """
    name = os.environ.get(LEVEL, "info")
    if name not in LEVELS:
        raise CheckpointError("no_log_level", name=LEVEL, value=name, known=tuple(LEVELS))
    line = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    line.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(line)
    _LOGGER.handlers, _LOGGER.propagate = [handler], False
    _LOGGER.setLevel(LEVELS[name])
    logging.getLogger("streamlit.error_util").addFilter(lambda one: one.exc_info is None)  # `failed` says the same
    for one in handlers():
        one.addFilter(BOUND)


def handlers() -> set[logging.Handler]:
    """All that writes lines by now: ours, those of libraries, and what Python writes for who has none."""
    loggers = [logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    last = {logging.lastResort} if logging.lastResort is not None else set()
    return {handler for logger in loggers for handler in logger.handlers} | last


def event(what: str, level: str = "info", /, **fields: object) -> None:
    """Write that something happened. Fields are the server's own words and numbers, never a user's."""
    said = " ".join(f"{name}={_written(value)}" for name, value in fields.items() if value is not None)
    _LOGGER.log(LEVELS[level], "%s %s %s", level, what, said)


def refused(error: HeedmapError, page: str | None = None) -> None:
    """Write that something was refused: the code of the refusal and its numbers; its words where they are asked for."""
    said = {f"of_{name}": value for name, value in error.fields.items() if isinstance(value, int | float) or _texts()}
    event("refused", code=error.code, page=page, **said)


def failed(error: BaseException) -> str:
    """Write that something went wrong that should not; returns the name by which the line is found."""
    name = secrets.token_hex(4)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(ROOT)]
    places = [f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}" for frame in frames[: -FRAMES - 1 : -1]]
    number = error.errno if isinstance(error, OSError) else None
    text = str(error) if _texts() else None
    event("error", "error", id=name, type=type(error).__name__, errno=number, at="<".join(places), text=text)
    if _LOGGER.isEnabledFor(logging.DEBUG):
        _LOGGER.debug("debug traceback id=%s", name, exc_info=error)
    return name


@contextmanager
def timed(what: str, **fields: object) -> Iterator[None]:
    """Write that something was done, and in how many seconds; nothing where it fails."""
    start = time.perf_counter()
    yield
    event(what, **fields, seconds=round(time.perf_counter() - start, 3))


class Bound(logging.Filter):
    """Lets through what a minute may hold, and then says how many lines it did not: nobody fills a disk with a log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._lock, self._clock = RLock(), clock
        self._since, self._written, self._left_out = clock(), 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether there is room for one more."""
        with self._lock:
            if self._clock() - self._since >= MINUTE:
                count, self._since, self._written, self._left_out = self._left_out, self._clock(), 0, 0
                if count:
                    event("left_out", "warning", lines=count)
            self._written += LINE_BYTES + len(record.getMessage()) + (TRACEBACK_BYTES if record.exc_info else 0)
            fits = self._written <= BYTES_A_MINUTE
            self._left_out += not fits
            return fits


BOUND = Bound()
"""That of this process: before its handlers, together."""


def _texts() -> bool:
    return os.environ.get(TEXTS, "0") == "1"


def _written(value: object) -> str:
    """A value in a line: as it is, or as JSON, which has no line breaks."""
    plain = f"{value:g}" if isinstance(value, float) else str(value)
    return plain if _WORD.fullmatch(plain) else json.dumps(plain[:2000])
