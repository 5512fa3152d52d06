"""Work on untrusted files in processes of their own, which can fail, hang or be ended without the server noticing.

One template process is started with the first job. It has the library loaded and a single thread, and forks a worker
for each job (about 10 ms; a process from scratch takes 1.4 s, torch's import). A worker bounds its own memory, CPU
time and files; the server bounds the clock, and ends a worker that exceeds it. The threaded server itself never forks.
"""

import atexit
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.checkpoint.safe.refusal import SAVE_AGAIN, refused
from transformer.checkpoint.worker import frames
from transformer.checkpoint.worker.frames import Block, GarbledError
from transformer.checkpoint.worker.told import unpacked
from transformer.errors import CheckpointError
from transformer.messages import Message

COMMAND = (sys.executable, "-P", "-m", "transformer.checkpoint.worker.child")
"""What starts the template, before the number of its end of the line."""

POSSIBLE = hasattr(os, "fork") and hasattr(socket, "send_fds")
"""Whether this system has what workers need; without it (Windows), files are read in the server itself."""

MOST_WORKERS = 3
"""Jobs at a time; others wait for `PATIENCE_SECONDS` and are then told to come again."""

PATIENCE_SECONDS = 60.0
START_SECONDS, REPLY_SECONDS = 60.0, 10.0
"""How long the template may take to start, and to answer."""

TICK_SECONDS = 0.2
"""How often a caller that waits is asked whether it still wants to."""

MESSAGE_BYTES = 5
"""What the template hears and says: a letter and the id of a process."""

LESS = Message("remedy_bring_less")
"""What helps against a bound that is too tight."""

MOST_SENTENCE = 20_000
SETTINGS = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV")
"""What workers see of the server's environment: no keys, no addresses."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Budget:
    """What one job may take: memory beyond the loaded library, processor time; the clock runs twice as long."""

    memory_bytes: int
    seconds: int

    @classmethod
    def of(cls, n_bytes: int, floor_bytes: int = 512 * MEGABYTE, floor_seconds: int = 30) -> "Budget":
        """For a file of `n_bytes`: a floor, four times the file, and a second for every 5 MB."""
        return cls(floor_bytes + 4 * n_bytes, floor_seconds + n_bytes // (5 * MEGABYTE))


@dataclass(frozen=True)
class Answer:
    """One part of what a worker found: a table, and blocks of bytes. Neither is to be believed unchecked."""

    header: Mapping[str, Any]
    blocks: Sequence[bytearray]


class Workers:
    """The template process and the workers that it forks; safe to use from many threads."""

    def __init__(self, command: Sequence[str] = COMMAND, most: int = MOST_WORKERS) -> None:
        self._command, self._most = tuple(command), most
        self._places = BoundedSemaphore(most)
        self._lock = Lock()
        self._template: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def answers(
        self,
        job: str,
        source: str,
        request: Mapping[str, Any],
        blocks: Sequence[Block] = (),
        *,
        budget: Budget,
        most_bytes: int = 0,
        on_tick: Callable[[], None] = lambda: None,
        other_library: bool = False,
    ) -> Generator[Answer, None, None]:
        """What a worker says of a job about the file `source`, part by part; `most_bytes` bounds all blocks together.

        `on_tick` is called several times a second and may raise, which ends the worker; so does leaving the loop.
        `other_library` lets the template import the transformers library first, once for all workers.

        Raises:
            CheckpointError: the file is refused; or the worker took too much, failed, or was not understood.
        """
        with self._place(source, on_tick), self._forked(other_library) as (channel, end):
            clock = _Clock(2 * budget.seconds, on_tick)
            try:
                frames.send(channel, {"job": job, "budget": asdict(budget), **request}, blocks, clock)
                while (header := frames.receive_header(channel, clock)) is not None and header.get("kind") == "part":
                    found = frames.receive_blocks(channel, header, most_bytes, clock)
                    most_bytes -= sum(map(len, found))
                    yield Answer(header, found)
            except TimeoutError as error:
                raise _too_long(source, budget) from error
            except GarbledError as error:
                raise _not_understood(source, str(error)) from error
            except OSError:
                _log.info("the worker of %s went away while it was spoken to", source)
                header = None
            if header is None:
                raise _ended(source, end(), budget)
            if header.get("kind") != "done":
                raise _told(source, header, budget)

    def close(self) -> None:
        """End the template and with it every worker."""
        with self._lock:
            self._close()

    @contextmanager
    def _place(self, source: str, on_tick: Callable[[], None]) -> Iterator[None]:
        """Wait for one of the places."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._places.acquire(timeout=TICK_SECONDS):
            on_tick()
            if time.monotonic() > until:
                raise CheckpointError("worker_busy", source=source, count=self._most)
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def _forked(self, other_library: bool) -> Iterator[tuple[socket.socket, Callable[[], int]]]:
        """A worker that waits for its job, and what ends it and says how; it is gone afterwards, whatever it did."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                pid = self._fork(theirs, other_library)
            end = cache(lambda: self._end(pid))  # once: afterwards the id may be another's
            try:
                yield ours, end
            finally:
                end()

    def _fork(self, channel: socket.socket, other_library: bool) -> int:
        """The process id of a new worker at the other end of `channel`."""
        with self._lock:
            for _ in range(2):  # a template that was ended by someone is started once more
                if self._line is None:
                    self._start()
                wish = b"H" if other_library else b"F"
                pid = self._ask(wish + bytes(MESSAGE_BYTES - 1), channel, START_SECONDS)
                if pid is not None:
                    return pid
                self._close()
        raise CheckpointError("worker_not_started")

    def _end(self, pid: int) -> int:
        """End a worker, if it has not ended, and let its id go; how it ended, as `os.waitpid` says."""
        with self._lock:
            status = self._ask(b"E" + pid.to_bytes(MESSAGE_BYTES - 1, "little"), None, REPLY_SECONDS)
            if status is None:
                self._close()
            return status or 0

    def _ask(self, message: bytes, channel: socket.socket | None, seconds: float) -> int | None:
        """The template's answer; None if it has none."""
        if self._line is None:
            return None
        self._line.settimeout(seconds)
        try:
            socket.send_fds(self._line, [message], [channel.fileno()] if channel else [])
            reply = self._line.recv(MESSAGE_BYTES, socket.MSG_WAITALL)
        except OSError as error:
            _log.warning("the process that reads files does not answer: %s", error)
            return None
        return int.from_bytes(reply[1:], "little") if len(reply) == MESSAGE_BYTES else None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).parents[3])
        known = {name: os.environ[name] for name in SETTINGS if name in os.environ}
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        with theirs:
            self._template = subprocess.Popen(  # noqa: S603  (our own program)
                [*self._command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**known, **threads, "PYTHONPATH": root, "TOKENIZERS_PARALLELISM": "false"},
                start_new_session=True,  # the terminal's Ctrl-C is the server's: its end ends the template
            )
        self._line = ours

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._template is not None:
            self._template.kill()
            self._template.wait()
        self._line = self._template = None


WORKERS = Workers()
"""Those of this process."""

atexit.register(WORKERS.close)


class _Clock:
    """How long each read or write may wait, until the time is up."""

    def __init__(self, seconds: int, on_tick: Callable[[], None]) -> None:
        self._until, self._on_tick = time.monotonic() + seconds, on_tick

    def __call__(self) -> float:
        self._on_tick()
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(TICK_SECONDS, left)


def _told(source: str, header: Mapping[str, Any], budget: Budget) -> CheckpointError:
    """What a worker says that went wrong."""
    sentence = header.get("sentence")
    if header.get("kind") == "refused":
        try:
            return unpacked(header.get("error"))
        except GarbledError as error:
            return _not_understood(source, str(error))
    if header.get("kind") == "memory":
        return _too_much(source, budget)
    if header.get("kind") == "failed" and isinstance(sentence, str):
        _log.warning("reading %r failed:\n%s", source, sentence[:MOST_SENTENCE])
        last = sentence.strip().rpartition("\n")[2]
        return refused("worker_failed", source, SAVE_AGAIN, error=last[:200])
    return _not_understood(source, "an answer of no known kind")


def _ended(source: str, status: int, budget: Budget) -> CheckpointError:
    """How a worker ended that said nothing more."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGXCPU:
        return _too_long(source, budget)
    how = f"signal {signal.Signals(number).name}" if number in set(signal.Signals) else f"status {status}"
    return refused("worker_ended", source, SAVE_AGAIN, megabytes=_megabytes(budget), how=how)


def _too_long(source: str, budget: Budget) -> CheckpointError:
    return refused("worker_time", source, LESS, seconds=budget.seconds)


def _too_much(source: str, budget: Budget) -> CheckpointError:
    return refused("worker_memory", source, LESS, megabytes=_megabytes(budget))


def _not_understood(source: str, what: str) -> CheckpointError:
    return refused("worker_garbled", source, SAVE_AGAIN, said=what)


def _megabytes(budget: Budget) -> float:
    return budget.memory_bytes / MEGABYTE
