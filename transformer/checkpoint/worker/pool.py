"""Work on untrusted files in processes of their own, which can fail, hang or be ended without the server noticing.

A `Template` process, which has the library loaded and a single thread, forks a worker for each job (about 10 ms; a
process from scratch takes 1.4 s, torch's import). It is started with the first job, and again when it was ended; the
threaded server itself never forks. A `Queue` has a few at a time, in the order in which they were asked for. A worker
bounds its own memory, CPU time and files; the server bounds the clock, and ends a worker that exceeds it. A worker does
one job and is gone; a `Resident` keeps one, and asks it one request after another.
"""

import atexit
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Condition, Lock
from typing import Any

from transformer.checkpoint.worker import wire_format
from transformer.checkpoint.worker.wire_format import Block, GarbledError, receive, unpacked_error
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.limits import DEFAULT_LIMITS, MEGABYTE, SAVE_AGAIN, ReadLimits, refused, refused_because

COMMAND = (sys.executable, "-P", "-m", "transformer.checkpoint.worker.child")
"""What starts a template, before the number of its end of the line."""

START_SECONDS, REPLY_SECONDS = 60.0, 10.0
"""How long a template may take to start, and to answer."""

TICK_SECONDS = 0.2
GLANCE_SECONDS = 0.05
"""How often somebody who waits looks whether it is still worth it; how long somebody may wait who holds a turn to draw.
"""

MESSAGE_BYTES = 5
"""What a template hears and says: a letter and the id of a process."""

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV")
"""What workers see of the server's environment: no keys, no addresses."""

Wait = Callable[[], float]
"""How long one wait may last; called before each, it may raise."""

POSSIBLE = hasattr(os, "fork") and hasattr(socket, "send_fds")
"""Whether this system has what workers need; without it (Windows), no untrusted file is read."""

MOST_WORKERS = 3
"""Jobs at a time; others wait in a queue for `PATIENCE_SECONDS` and are then told to come again."""

PATIENCE_SECONDS = 180.0
SPARE_SECONDS = 30.0
"""How long a worker may wait for a core, beside twice its processor time."""

LESS = Message("remedy_bring_less")
"""What helps against a bound that is too tight."""

MOST_RESIDENTS = 8
"""Workers that stay at a time; the one that was asked longest ago goes when another is needed."""

ASK_SECONDS, LETTERS_A_SECOND = 1, 100_000
"""Processor time of one answer, and for how many letters or numbers it is a second more."""

MOST_SENTENCE = 20_000

_log = logging.getLogger(__name__)


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


def clock(seconds: float, host: Host, late: Exception | type[Exception] = TimeoutError) -> Wait:
    """How long each read or write may wait before this is asked again; it raises `late` once the time is up."""
    start = time.monotonic()

    def wait() -> float:
        taken = time.monotonic() - start
        if taken < GLANCE_SECONDS:
            return GLANCE_SECONDS
        host.waits()
        if taken >= seconds:
            raise late
        return min(TICK_SECONDS, seconds - taken)

    return wait


class Template:
    """One template process and what is said to it; safe to use from many threads."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._left = deque[int]()

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def fork(self, channel: socket.socket, wait: Wait) -> int:
        """The process id of a new worker at the other end of `channel`.

        Raises:
            CheckpointError: the template cannot be started.
        """
        while not self._lock.acquire(timeout=wait()):
            pass
        try:
            while self._left:
                self._ended(self._left.popleft())
            for _ in range(2):  # a template that was ended by someone is started once more
                if self._line is None:
                    self._start()
                pid = self._ask(b"F" + bytes(MESSAGE_BYTES - 1), [channel.fileno()], START_SECONDS, wait)
                if pid is not None:
                    return pid
        finally:
            self._lock.release()
        raise CheckpointError("worker_not_started")

    def end(self, pid: int) -> int:
        """End a worker, if it has not ended, and let its id go; how it ended, as `os.waitpid` says."""
        with self._lock:
            return self._ended(pid)

    def leave(self, pid: int) -> None:
        """Have a worker ended before the next one is forked. Never waits, so that finalizers may call it."""
        self._left.append(pid)

    def close(self) -> None:
        """End the process and with it every worker."""
        with self._lock:
            self._close()

    def _ended(self, pid: int) -> int:
        return self._ask(b"E" + pid.to_bytes(MESSAGE_BYTES - 1, "little"), [], REPLY_SECONDS) or 0

    def _ask(self, message: bytes, files: list[int], seconds: float, wait: Wait = lambda: TICK_SECONDS) -> int | None:
        """The template's answer; None if it has none in time, which ends it."""
        if self._line is None:
            return None
        reply, patience = None, clock(seconds, Host())
        try:
            socket.send_fds(self._line, [message], files)
            reply = receive(self._line, MESSAGE_BYTES, lambda: min(patience(), wait()))
        except OSError as error:
            _log.warning("the process that forks workers does not answer: %s", error)
        finally:
            if reply is None:  # it ended, or whoever waited has left: its answer must not be the next one's
                self._close()
        return None if reply is None else int.from_bytes(reply[1:], "little")

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).parents[3])
        known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  (our own program)
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
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None
        self._left.clear()


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
                message = _message(job, source, budget, limits=asdict(limits), **about)
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
        patience = clock(PATIENCE_SECONDS, self.host, late)

        def wait(ahead: int) -> float:
            self.host.queued(ahead)
            return patience()

        with self.queue.place(self.host.client(), wait):
            self.host.queued(0)
            yield


def _message(job: str, source: str, budget: Budget, **about: Any) -> dict[str, Any]:
    """What a worker is told of its job."""
    return {"job": job, "name": source, "budget": asdict(budget), **about}


WORKERS = Workers()
"""Those of this process."""

atexit.register(WORKERS.template.close)


def garbled(source: str, said: str) -> CheckpointError:
    """How an answer is refused that cannot be of the job."""
    return refused("worker_garbled", source, said=said)


class Resident:
    """What one worker keeps for as long as it is asked (a tokenizer).

    The worker is started by `start`, and again by the first request after it ended: because it took too much, or
    because `MOST_RESIDENTS` others were asked since. Requests are answered one at a time.
    """

    def __init__(
        self,
        keeper: str,
        source: str,
        blocks: Sequence[Block] = (),
        *,
        budget: Budget,
        workers: Workers = WORKERS,
        **about: Any,
    ) -> None:
        """`keeper` is one of `child.KEEPERS`, which reads `blocks` and what it is told `about` the file `source`."""
        self.source = source
        self._first, self._blocks = _message(keeper, source, budget, **about), blocks
        self._budget, self._workers = budget, workers
        self._answering = Lock()
        self._worker: Worker | None = None

    def start(self) -> Mapping[str, Any]:
        """What the worker says of what it keeps.

        Raises:
            CheckpointError: it is refused, or takes too much memory or time.
        """
        try:
            with self._alone():
                return self._started()
        except GaveUpError as error:
            raise refused_because(error.why, self.source) from error

    def ask(self, request: Mapping[str, Any], size: int = 0) -> Mapping[str, Any]:
        """The answer to a request about `size` letters or numbers.

        Raises:
            CheckpointError: the request is refused.
            GaveUpError: the worker took too much memory or time, or ended.
        """
        with self._alone():
            if self._worker is None:
                self._started()
            self._used()
            budget = replace(self._budget, seconds=ASK_SECONDS + size // LETTERS_A_SECOND)
            return self._said({"seconds": budget.seconds, **request}, (), budget)

    def rest(self) -> None:
        """End the worker, unless it is answering."""
        if self._answering.acquire(blocking=False):
            try:
                self.leave()
            finally:
                self._answering.release()

    def leave(self) -> None:
        """Have the worker ended. Never waits, so that finalizers may call it."""
        _recent.pop(self, None)  # takes no lock
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.leave()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        late = CheckpointError("worker_busy", source=self.source, count=1)
        wait = clock(PATIENCE_SECONDS, self._workers.host, late)
        while not self._answering.acquire(timeout=wait()):
            pass
        try:
            yield
        finally:
            self._answering.release()

    def _started(self) -> Mapping[str, Any]:
        self.leave()
        with self._workers.place(self.source):
            self._worker = self._workers.fork(self.source)
            found = self._said(self._first, self._blocks, self._budget)
        self._used()
        return found

    def _said(self, request: Mapping[str, Any], blocks: Sequence[Block], budget: Budget) -> Mapping[str, Any]:
        """What the worker says to a message; it stays only if it understood and was understood."""
        worker, self._worker = self._worker, None
        if worker is None:
            raise RuntimeError("the worker has to be started first")
        try:
            *_, done = worker.said(request, blocks, budget)
        except BaseException as error:
            if isinstance(error, CheckpointError) and request is not self._first:
                self._worker = worker  # a refusal is an answer
            else:
                worker.end()
            raise
        self._worker = worker
        return done.header

    def _used(self) -> None:
        """Count it as the latest that was asked; those that are too many rest."""
        with _recent_lock:
            _recent[self] = None
            _recent.move_to_end(self)
            extra = list(_recent)[:-MOST_RESIDENTS]
        for one in extra:
            one.rest()


_recent, _recent_lock = OrderedDict[Resident, None](), Lock()
"""The residents that have a worker, the one that was asked longest ago first."""
