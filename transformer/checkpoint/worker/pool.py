"""Work on untrusted files in processes of their own, which can fail, hang or be ended without the server noticing.

A `Template` process forks a worker for each job. A `Queue` has a few at a time, in the order in which they were asked
for. A worker bounds its own memory, CPU time and files; the server bounds the clock, and ends a worker that exceeds it.
A worker does one job and is gone; a `Resident` keeps one, and asks it one request after another.
"""

import atexit
import logging
import os
import signal
import socket
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Condition
from typing import Any

from ...errors import CheckpointError
from ...messages import Message
from ...safe.limits import DEFAULT_LIMITS, MEGABYTE, SAVE_AGAIN, ReadLimits, refused, refused_because
from . import wire_format
from .template import COMMAND, POSSIBLE, Host, Template, clock
from .wire_format import Block, GarbledError, unpacked_error

MOST_WORKERS = 3
"""Jobs at a time; others wait in a queue for `PATIENCE_SECONDS` and are then told to come again."""

PATIENCE_SECONDS = 180.0
SPARE_SECONDS = 30.0
"""How long a worker may wait for a core, beside twice its processor time."""

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

    @property
    def megabytes(self) -> float:
        """The memory as it is said."""
        return self.memory_bytes / MEGABYTE

    @classmethod
    def of(cls, n_bytes: int, floor_bytes: int = 512 * MEGABYTE, floor_seconds: int = 30) -> "Budget":
        """For a file of `n_bytes`: a floor, four times the file, and a second for every 5 MB."""
        return cls(floor_bytes + 4 * n_bytes, floor_seconds + n_bytes // (5 * MEGABYTE))


@dataclass(frozen=True)
class Answer:
    """One part of what a worker found: a table, and blocks of bytes. Neither is to be believed unchecked."""

    header: Mapping[str, Any]
    blocks: Sequence[bytearray]


class GaveUpError(Exception):
    """A worker did not answer; `why` says it in a few words."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


class Worker:
    """A process that waits for its job, about the file `source`, at the other end of `channel`."""

    def __init__(self, channel: socket.socket, pid: int, template: Template, host: Host, source: str) -> None:
        self.pid = pid
        self._channel, self._template, self._host, self._source = channel, template, host, source
        self._status: int | None = None

    def said(
        self, message: Mapping[str, Any], blocks: Sequence[Block], budget: Budget, most_bytes: int = 0
    ) -> Iterator[Answer]:
        """Part by part what it says to a message; the last one has the table with which it is done.

        Raises:
            CheckpointError: it refuses what it was told; it may go on.
            GaveUpError: it took too much, failed, or was not understood.
        """
        wait = clock(budget.clock_seconds, self._host)
        try:
            wire_format.send(self._channel, message, blocks, wait)
            while (header := wire_format.receive_header(self._channel, wait)) and header.get("kind") == "part":
                found = wire_format.receive_blocks(self._channel, header, most_bytes, wait)
                most_bytes -= sum(map(len, found))
                yield Answer(header, found)
            if header is None:
                raise ConnectionResetError("it ended before it had said all")
            if header["blocks"]:
                raise GarbledError("blocks that nobody asked for")  # noqa: TRY301
            if header.get("kind") == "refused":
                raise unpacked_error(header.get("error"))
        except (TimeoutError, GarbledError, OSError) as error:
            raise GaveUpError(self._failure(error, budget)) from error
        if header.get("kind") != "done":
            raise GaveUpError(self._reason(header, budget))
        yield Answer(header, [])

    def _failure(self, error: Exception, budget: Budget) -> Message:
        """Why it gave no answer that could be used, in a few words; it is ended."""
        status = self.end()
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if isinstance(error, GarbledError):
            return Message("worker_garbled", said=str(error))
        if isinstance(error, TimeoutError) or number == signal.SIGXCPU:
            return Message("worker_time", seconds=budget.seconds)
        how = f"signal {signal.Signals(number).name}" if number in set(signal.Signals) else f"status {status}"
        return Message("worker_ended", megabytes=budget.megabytes, how=how)

    def _reason(self, header: Mapping[str, Any], budget: Budget) -> Message:
        """What it says in a few words that went wrong."""
        sentence = header.get("sentence")
        if header.get("kind") == "memory":
            return Message("worker_memory", megabytes=budget.megabytes)
        if header.get("kind") == "failed" and isinstance(sentence, str):
            _log.warning("work on %r failed:\n%s", self._source, sentence[:MOST_SENTENCE])
            return Message("worker_failed", error=sentence.strip().rpartition("\n")[2][:200])
        return Message("worker_garbled", said="an answer of no known kind")

    def end(self) -> int:
        """End it, whatever it does; how it had ended, as `os.waitpid` says. Once is enough."""
        if self._status is None:  # afterwards the id may be another's
            self._channel.close()
            self._status = self._template.end(self.pid)
        return self._status

    def leave(self) -> None:
        """Have it ended some time. Never waits, so that finalizers may call it."""
        if self._status is None:
            self._status = 0
            self._channel.close()
            self._template.leave(self.pid)


class Queue:
    """`count` places. A client that has one waits for its second behind its own first one, and holds up nobody."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._changed = Condition()
        self._working: list[Hashable] = []
        self._waiting: list[tuple[object, Hashable]] = []

    @contextmanager
    def place(self, client: Hashable | None, wait: Callable[[int], float]) -> Iterator[None]:
        """Wait for a place, and keep it until the block ends. Without a `client`, each job is one of its own.

        `wait` is told how many jobs come first, says for how long to wait at most until it is asked again, and may
        raise, which leaves the queue.
        """
        ticket = object()
        owner = ticket if client is None else client
        with self._changed:
            self._waiting.append((ticket, owner))
        try:
            while ahead := self._begin(ticket, owner):
                seconds = wait(ahead)  # without the lock: it may draw, or leave
                with self._changed:
                    self._changed.wait_for(lambda: self._ahead(ticket) == 0, seconds)
        except BaseException:
            with self._changed:
                self._waiting.remove((ticket, owner))
                self._changed.notify_all()
            raise
        try:
            yield
        finally:
            with self._changed:
                self._working.remove(owner)
                self._changed.notify_all()

    @contextmanager
    def told(self, host: Host, seconds: float, late: Exception) -> Iterator[None]:
        """A place for a host's client, which is told meanwhile how many jobs come first.

        Raises:
            Exception: others have the places for so many seconds; it is `late`.
        """
        patience = clock(seconds, host, late)

        def wait(ahead: int) -> float:
            host.queued(ahead)
            return patience()

        with self.place(host.client(), wait):
            host.queued(0)
            yield

    def _begin(self, ticket: object, owner: Hashable) -> int:
        """Give a job that waited its place, if it can have one now; else how many come first."""
        with self._changed:
            if not (ahead := self._ahead(ticket)):
                self._waiting.remove((ticket, owner))
                self._working.append(owner)
            return ahead

    def _ahead(self, ticket: object) -> int:
        """How many jobs have to end before this one begins; 0 where it may begin."""
        working, before = list(self._working), 0
        for one, owner in self._waiting:
            if one is ticket:
                if owner in working:
                    return before + 1
                return max(0, len(working) - self.count + 1)
            if owner in working:
                continue
            working.append(owner)
            before += 1
        raise ValueError("the ticket is not waiting")


class Workers:
    """The template process and the workers that it forks; safe to use from many threads."""

    def __init__(self, command: Sequence[str] = COMMAND, most: int = MOST_WORKERS) -> None:
        self.host = Host()
        self.queue = Queue(most)
        self.template = Template(command)

    def answers(
        self,
        job: str,
        source: str,
        blocks: Sequence[Block] = (),
        *,
        budget: Budget,
        limits: ReadLimits = DEFAULT_LIMITS,
        most_bytes: int = 0,
        **about: Any,
    ) -> Generator[Answer, None, None]:
        """What a worker says of a job about the file `source`, part by part; `most_bytes` bounds all blocks together.

        Leaving the loop ends the worker.

        Raises:
            CheckpointError: the file is refused; or the worker took too much, failed, or was not understood.
        """
        with self.place(source):
            worker = self.fork(source)
            try:
                message = job_message(job, source, budget, limits=asdict(limits), **about)
                for answer in worker.said(message, blocks, budget, most_bytes):
                    if answer.header["kind"] == "part":
                        yield answer
            except GaveUpError as error:
                is_bound = error.why.code in {"worker_time", "worker_memory"}
                raise refused_because(error.why, source, LESS if is_bound else SAVE_AGAIN) from error
            finally:
                worker.end()

    def answer(self, job: str, source: str, blocks: Sequence[Block] = (), **options: Any) -> Answer:
        """As `answers`, of a job that has one part."""
        found = list(self.answers(job, source, blocks, **options))
        if len(found) != 1:
            raise garbled(source, f"{len(found)} parts")
        return found[0]

    def fork(self, source: str) -> Worker:
        """A worker that waits for its job; whoever asks for it ends it.

        Raises:
            CheckpointError: the system has no such processes, or the template cannot be started.
        """
        if not POSSIBLE:
            raise CheckpointError("worker_not_possible")
        ours, theirs = socket.socketpair()
        wait = clock(PATIENCE_SECONDS, self.host, CheckpointError("worker_not_started"))  # others may hold the template
        try:
            with theirs:
                return Worker(ours, self.template.fork(theirs, wait), self.template, self.host, source)
        except BaseException:
            ours.close()
            raise

    @contextmanager
    def place(self, source: str) -> Iterator[None]:
        """Wait for a place in the queue, and say so.

        Raises:
            CheckpointError: others have the places for too long.
        """
        late = CheckpointError("worker_busy", source=source, count=self.queue.count)
        with self.queue.told(self.host, PATIENCE_SECONDS, late):
            yield


def job_message(job: str, source: str, budget: Budget, **about: Any) -> dict[str, Any]:
    """What a worker is told of its job."""
    return {"job": job, "name": source, "budget": asdict(budget), **about}


WORKERS = Workers()
"""Those of this process."""

atexit.register(WORKERS.template.close)


def garbled(source: str, said: str) -> CheckpointError:
    """How an answer is refused that cannot be of the job."""
    return refused("worker_garbled", source, said=said)
