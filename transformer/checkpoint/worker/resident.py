"""A worker that stays: what it has read once answers many requests (a tokenizer)."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from ...errors import CheckpointError
from ...safe.limits import refused_because
from .pool import PATIENCE_SECONDS, WORKERS, Budget, GaveUpError, Worker, Workers, job_message
from .template import clock
from .wire_format import Block

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
        blocks: Sequence[Block] = (),
        *,
        budget: Budget,
        workers: Workers = WORKERS,
        **about: Any,
    ) -> None:
        """`keeper` is one of `child.KEEPERS`, which reads `blocks` and what it is told `about` the file `source`."""
        self.source = source
        self._first, self._blocks = job_message(keeper, source, budget, **about), blocks
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
