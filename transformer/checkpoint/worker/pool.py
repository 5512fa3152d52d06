"""Work on untrusted files in processes of their own, which can fail, hang or be ended without the server noticing.

A `Template` forks a worker for each job. A worker bounds its own memory, CPU time and files; the server bounds the
clock, and ends a worker that exceeds it. A worker does one job and is gone; a `Resident` keeps one.
"""

import atexit
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from transformer.checkpoint.worker import wire_format
from transformer.checkpoint.worker.error_codec import unpacked
from transformer.checkpoint.worker.queue import Queue
from transformer.checkpoint.worker.template import STOPPED_SECONDS, TICK_SECONDS, Stillness, Template
from transformer.checkpoint.worker.wire_format import Block, GarbledError
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.limits import MEGABYTE
from transformer.safe.refusal import SAVE_AGAIN, refused_because

COMMAND = (sys.executable, "-P", "-m", "transformer.checkpoint.worker.child")
"""What starts a template, before the number of its end of the line."""

LIBRARY = "--library"
"""The option with which a template imports the transformers library at its start."""

POSSIBLE = hasattr(os, "fork") and hasattr(socket, "send_fds")
"""Whether this system has what workers need; without it (Windows), files are read in the server itself."""

MOST_WORKERS = 3
"""Jobs at a time; others wait in a queue for `PATIENCE_SECONDS` and are then told to come again."""

PATIENCE_SECONDS = 180.0
SPARE_SECONDS = 30.0
"""How long a worker may wait for a core, beside twice its processor time."""

GLANCE_SECONDS = 0.05
"""How long somebody may wait who holds a turn to draw."""

LESS = Message("remedy_bring_less")
"""What helps against a bound that is too tight."""

MOST_SENTENCE = 20_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Budget:
    """What one job may take: memory beyond the loaded library, and processor time."""

    memory_bytes: int
    seconds: int

    @property
    def clock_seconds(self) -> float:
        """When whoever asked gives up: a worker that shares its core with others still has its processor time."""
        return 2.0 * self.seconds + SPARE_SECONDS

    @classmethod
    def of(cls, n_bytes: int, floor_bytes: int = 512 * MEGABYTE, floor_seconds: int = 30) -> "Budget":
        """For a file of `n_bytes`: a floor, four times the file, and a second for every 5 MB."""
        return cls(floor_bytes + 4 * n_bytes, floor_seconds + n_bytes // (5 * MEGABYTE))


@dataclass(frozen=True)
class Answer:
    """One part of what a worker found: a table, and blocks of bytes. Neither is to be believed unchecked."""

    header: Mapping[str, Any]
    blocks: Sequence[bytearray]


class Host:
    """The program that asks workers, as they know it: here a notebook or a command, with one user and nothing to share.

    A server has many users, whose pages take turns: `WORKERS.host` is told of them.
    """

    def client(self) -> Hashable | None:
        """For whom this thread works: each client has one job at a time. None sets no such bound."""
        return None

    def waits(self) -> None:
        """Hear that this thread waits for a worker, so that it holds up nobody; what is raised here ends the worker."""

    def queued(self, ahead: int) -> None:
        """Hear how many jobs come before that of this thread; 0 when it begins."""


class GaveUpError(Exception):
    """A worker did not answer; `why` says it in a few words."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


class Worker:
    """A process that waits for its job at the other end of `channel`."""

    def __init__(self, channel: socket.socket, pid: int, template: Template) -> None:
        self.channel, self.pid = channel, pid
        self._template = template
        self._status: int | None = None

    def answers(
        self,
        message: Mapping[str, Any],
        blocks: Sequence[Block],
        budget: Budget,
        clock: wire_format.Wait,
        source: str,
        most_bytes: int = 0,
    ) -> Generator[Answer, None, Mapping[str, Any]]:
        """Part by part what it says to a message; in the end, the table with which it is done.

        Raises:
            CheckpointError: it refuses what it was told; it may go on.
            GaveUpError: it took too much, failed, or was not understood.
        """
        try:
            wire_format.send(self.channel, message, blocks, clock)
            while (header := wire_format.receive_header(self.channel, clock)) and header.get("kind") == "part":
                found = wire_format.receive_blocks(self.channel, header, most_bytes, clock)
                most_bytes -= sum(map(len, found))
                yield Answer(header, found)
            if header is None:
                raise ConnectionResetError("it ended before it had said all")
            if header["blocks"]:
                raise GarbledError("blocks that nobody asked for")  # noqa: TRY301
        except (TimeoutError, GarbledError, OSError) as error:
            raise GaveUpError(failure(error, self, budget)) from error
        if header.get("kind") != "done":
            raise reason(header, budget, source)
        return header

    def end(self) -> int:
        """End it, whatever it does; how it had ended, as `os.waitpid` says. Once is enough."""
        if self._status is None:  # afterwards the id may be another's
            self.channel.close()
            self._status = self._template.end(self.pid)
        return self._status

    def leave(self) -> None:
        """Have it ended some time. Never waits, so that finalizers may call it."""
        if self._status is None:
            self._status = 0
            self.channel.close()
            self._template.leave(self.pid)


class Workers:
    """Template processes and the workers that they fork; safe to use from many threads."""

    def __init__(self, command: Sequence[str] = COMMAND, most: int = MOST_WORKERS) -> None:
        self.host = Host()
        self.queue = Queue(most)
        self.plain = Template(command)
        self.with_library = Template([*command, LIBRARY])

    def answers(
        self,
        job: str,
        source: str,
        request: Mapping[str, Any],
        blocks: Sequence[Block] = (),
        *,
        budget: Budget,
        most_bytes: int = 0,
        other_library: bool = False,
    ) -> Generator[Answer, None, None]:
        """What a worker says of a job about the file `source`, part by part; `most_bytes` bounds all blocks together.

        Leaving the loop ends the worker.
        `other_library` has the worker forked where the transformers library is loaded, which takes seconds once.

        Raises:
            CheckpointError: the file is refused; or the worker took too much, failed, or was not understood.
        """
        with self.place(source):
            worker = self.fork(other_library)
            clock = Clock(budget.clock_seconds, self.host, worker.pid)
            try:
                message = {"job": job, "budget": asdict(budget), **request}
                yield from worker.answers(message, blocks, budget, clock, source, most_bytes)
            except GaveUpError as error:
                is_bound = error.why.code in {"worker_time", "worker_memory"}
                raise refused_because(error.why, source, LESS if is_bound else SAVE_AGAIN) from error
            finally:
                worker.end()

    def fork(self, other_library: bool) -> Worker:
        """A worker that waits for its job; whoever asks for it ends it."""
        template = self.with_library if other_library else self.plain
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                return Worker(ours, template.fork(theirs, Clock(PATIENCE_SECONDS, self.host)), template)
        except BaseException:
            ours.close()
            raise

    @contextmanager
    def place(self, source: str) -> Iterator[None]:
        """Wait for a place in the queue, and say so.

        Raises:
            CheckpointError: others have the places for too long.
        """
        clock = Clock(PATIENCE_SECONDS, self.host)

        def wait(ahead: int) -> float:
            self.host.queued(ahead)
            return clock()

        with ExitStack() as stack:
            try:
                stack.enter_context(self.queue.place(self.host.client(), wait))
            except TimeoutError as error:
                raise CheckpointError("worker_busy", source=source, count=self.queue.count) from error
            self.host.queued(0)
            yield

    def close(self) -> None:
        """End the templates and with them every worker."""
        self.plain.close()
        self.with_library.close()


WORKERS = Workers()
"""Those of this process."""

atexit.register(WORKERS.close)


class StoppedError(TimeoutError):
    """A worker stands still: somebody sent it SIGSTOP."""


class Clock:
    """How long each read or write may wait, until the time is up or the process `pid` stands still."""

    def __init__(self, seconds: float, host: Host, pid: int | None = None) -> None:
        self._start, self._seconds = time.monotonic(), seconds
        self._host = host
        self._still = None if pid is None else Stillness(pid)

    def __call__(self) -> float:
        """Seconds to wait before this is asked again.

        Raises:
            TimeoutError: it took too long.
        """
        taken = time.monotonic() - self._start
        if taken < GLANCE_SECONDS:
            return GLANCE_SECONDS
        self._host.waits()
        if taken >= self._seconds:
            raise TimeoutError
        if self._still is not None and self._still.for_seconds() > STOPPED_SECONDS:
            raise StoppedError
        return min(TICK_SECONDS, self._seconds - taken)


def reason(header: Mapping[str, Any], budget: Budget, source: str) -> CheckpointError | GaveUpError:
    """What a worker says that went wrong: an error of ours, or in a few words what it was not."""
    sentence = header.get("sentence")
    if header.get("kind") == "refused":
        try:
            return unpacked(header.get("error"))
        except GarbledError as error:
            return GaveUpError(Message("worker_garbled", said=str(error)))
    if header.get("kind") == "memory":
        return GaveUpError(Message("worker_memory", megabytes=_megabytes(budget)))
    if header.get("kind") == "failed" and isinstance(sentence, str):
        _log.warning("work on %r failed:\n%s", source, sentence[:MOST_SENTENCE])
        return GaveUpError(Message("worker_failed", error=sentence.strip().rpartition("\n")[2][:200]))
    return GaveUpError(Message("worker_garbled", said="an answer of no known kind"))


def failure(error: Exception, worker: Worker, budget: Budget) -> Message:
    """Why a worker gave no answer that could be used, in a few words; it is ended."""
    status = worker.end()
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if isinstance(error, GarbledError):
        return Message("worker_garbled", said=str(error))
    if isinstance(error, StoppedError):
        return Message("worker_stopped")
    if isinstance(error, TimeoutError) or number == signal.SIGXCPU:
        return Message("worker_time", seconds=budget.seconds)
    how = f"signal {signal.Signals(number).name}" if number in set(signal.Signals) else f"status {status}"
    return Message("worker_ended", megabytes=_megabytes(budget), how=how)


def _megabytes(budget: Budget) -> float:
    return budget.memory_bytes / MEGABYTE
