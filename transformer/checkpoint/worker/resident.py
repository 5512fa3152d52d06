"""A worker that keeps what it was given, and answers one request after another about it."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from threading import Lock
from typing import Any

from transformer.checkpoint.worker.pool import (
    PATIENCE_SECONDS,
    WORKERS,
    Budget,
    Clock,
    GaveUpError,
    Worker,
    Workers,
)
from transformer.checkpoint.worker.wire_format import Block
from transformer.errors import CheckpointError
from transformer.safe.refusal import refused_because

MOST_RESIDENTS = 8
"""Workers that stay at a time; the one that was asked longest ago goes when another is needed."""

ASK_SECONDS, LETTERS_A_SECOND = 1, 100_000
"""Processor time of one answer, and for how many letters or numbers it is a second more."""


class Resident:
    """What one worker keeps for as long as it is asked (a tokenizer).

    The worker is started by `start`, and again by the first request after it ended: because it took too much, or
    because `MOST_RESIDENTS` others were asked since. Requests are answered one at a time.
    """

    def __init__(
        self,
        keeper: str,
        source: str,
        request: Mapping[str, Any],
        blocks: Sequence[Block] = (),
        *,
        budget: Budget,
        other_library: bool = False,
        workers: Workers = WORKERS,
    ) -> None:
        """`keeper` is one of `jobs.KEEPERS`, which reads `request` and `blocks` about the file `source`."""
        self.source = source
        self._request, self._blocks = {"job": keeper, "budget": asdict(budget), **request}, blocks
        self._budget, self._other_library, self._workers = budget, other_library, workers
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
            _RECENT.used(self)
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
        _RECENT.forget(self)
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.leave()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        clock = Clock(PATIENCE_SECONDS, self._workers.host)
        try:
            while not self._answering.acquire(timeout=clock()):
                pass
        except TimeoutError as error:
            raise CheckpointError("worker_busy", source=self.source, count=1) from error
        try:
            yield
        finally:
            self._answering.release()

    def _started(self) -> Mapping[str, Any]:
        self.leave()
        with self._workers.place(self.source):
            self._worker = self._workers.fork(self._other_library)
            found = self._said(self._request, self._blocks, self._budget)
        _RECENT.used(self)
        return found

    def _said(self, request: Mapping[str, Any], blocks: Sequence[Block], budget: Budget) -> Mapping[str, Any]:
        """What the worker says to a message; it stays only if it understood and was understood."""
        worker, self._worker = self._worker, None
        if worker is None:
            raise RuntimeError("the worker has to be started first")
        clock, goes_on = Clock(budget.clock_seconds, self._workers.host, worker.pid), False
        answers = worker.answers(request, blocks, budget, clock, self.source)
        try:
            while True:
                next(answers)
        except StopIteration as done:
            goes_on = True
            found: Mapping[str, Any] = done.value
            return found
        except CheckpointError:
            goes_on = request is not self._request
            raise
        finally:
            if goes_on:
                self._worker = worker
            else:
                worker.end()


class Here:
    """As `Resident`, where the system has no workers (Windows): requests are answered in this process."""

    def __init__(
        self, source: str, about: Mapping[str, Any], answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> None:
        self.source, self._about, self._answer = source, about, answer

    def start(self) -> Mapping[str, Any]:
        """What is known of what is kept."""
        return self._about

    def ask(self, request: Mapping[str, Any], size: int = 0) -> Mapping[str, Any]:
        """The answer to a request, however large.

        Raises:
            HeedmapError: the request is refused.
        """
        return self._answer(request)

    def leave(self) -> None:
        """Nothing has to be ended."""


class _Recent:
    """The residents that have a worker, the one that was asked longest ago first."""

    def __init__(self) -> None:
        self._lock, self._asked = Lock(), OrderedDict[Resident, None]()

    def used(self, resident: Resident) -> None:
        """Count it as the latest; those that are too many rest."""
        with self._lock:
            self._asked[resident] = None
            self._asked.move_to_end(resident)
            extra = list(self._asked)[:-MOST_RESIDENTS]
        for one in extra:
            one.rest()

    def forget(self, resident: Resident) -> None:
        """Count it no more; finalizers may call it, so it takes no lock."""
        self._asked.pop(resident, None)


_RECENT = _Recent()
