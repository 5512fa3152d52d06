"""Who computes the chunks of a pass: this process, several of this machine, or a Dask cluster. All run `work`."""

import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any, Protocol, runtime_checkable

import torch

from transformer.atlas.corpus import Chunk
from transformer.atlas.summarise import Plan, summarise
from transformer.atlas.tables import part_of
from transformer.errors import AtlasError
from transformer.runs.memory import recycle_memory
from transformer.runs.parent import end_with_parent

AHEAD = 2
"""Chunks that are handed out for each worker: one to work at, one to begin with at once."""

CONNECT_SECONDS, LOOK_SECONDS, PATIENCE_SECONDS = 30, 10.0, 60.0
"""How long a scheduler may take to answer, how often its workers are counted, and how long there may be none."""

Parts = Iterator[tuple[Chunk, bytes]]
"""Each chunk with its part, as they are finished."""


@runtime_checkable
class Executor(Protocol):
    """Computes chunks, in any order."""

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Parts:
        """Each chunk with its part, as they are finished. Chunks are taken few at a time.

        Raises:
            BrokenProcessPool: a worker died; what is missing can be asked for again.
            AtlasError: workers cannot be reached, or are lost.
        """


def executor_of(workers: int, scheduler: str | None) -> Executor:
    """A cluster where its scheduler is named, several processes where more than one is asked for, or this one."""
    if scheduler is not None:
        return Dask(scheduler)
    return Processes(workers) if workers > 1 else Serial()


def work(plan: Plan, run: str, chunk: Chunk) -> bytes:
    """What a worker does: the part of a chunk."""
    return part_of(summarise(plan, chunk), run)


class Serial:
    """Computes in this process, one chunk after the other, with one thread; gives the threads back afterwards."""

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Parts:
        """Each chunk with its part, in order."""
        threads = torch.get_num_threads()
        try:
            for chunk in chunks:
                yield chunk, work(plan, run, chunk)
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class Processes:
    """Computes in `count` processes of one thread each, which are started afresh (spawned) and loaded once."""

    count: int

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Parts:
        """Each chunk with its part."""
        pool = ProcessPoolExecutor(self.count, get_context("spawn"), initializer=_begin)
        try:
            yield from _computed(pool.submit, AHEAD * self.count, plan, run, chunks)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Dask:
    """Computes on the cluster whose scheduler has this address, such as `tcp://10.0.0.5:8786`.

    Workers need this library and the checkpoint at the same path; lines of the corpus are sent to them.
    """

    address: str

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Parts:
        """Each chunk with its part; the scheduler gives a dead worker's chunks to another."""
        try:
            from distributed import Client
            from distributed.scheduler import KilledWorker
        except ImportError as error:
            raise AtlasError("atlas_no_dask") from error
        log = logging.getLogger("distributed.client")
        log.addFilter(_silent)  # it logs tracebacks of what is said here in a sentence
        try:
            with self._connected(Client) as client:
                workers = sum(client.nthreads().values())
                if not workers:
                    raise AtlasError("atlas_no_workers", address=self.address)
                submit = client.get_executor(pure=False).submit
                yield from _computed(submit, AHEAD * workers, plan, run, chunks, self._look(client))
        except KilledWorker as error:
            raise AtlasError("atlas_worker_dies", times=error.allowed_failures) from error
        except (CancelledError, OSError) as error:
            raise AtlasError("atlas_scheduler_lost", address=self.address) from error
        finally:
            log.removeFilter(_silent)

    def _connected(self, client: Any) -> Any:
        try:
            return client(self.address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise AtlasError("atlas_no_scheduler", address=self.address, reason=str(error)) from error

    def _look(self, client: Any) -> Callable[[], None]:
        """A function that is called while nothing is heard, and gives up where there is no worker for long."""
        seen = time.monotonic()

        def look() -> None:
            nonlocal seen
            if client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > PATIENCE_SECONDS:
                raise AtlasError("atlas_workers_lost", address=self.address, seconds=PATIENCE_SECONDS)

        return look


def _computed(
    submit: Callable[..., "Future[bytes]"],
    most: int,
    plan: Plan,
    run: str,
    chunks: Iterable[Chunk],
    look: Callable[[], None] = lambda: None,
) -> Parts:
    """Hand out at most `most` chunks at a time; `look` is called whenever nothing was heard for `LOOK_SECONDS`."""
    waiting = iter(chunks)
    running: dict[Future[bytes], Chunk] = {}
    while True:
        for chunk in islice(waiting, most - len(running)):
            running[submit(work, plan, run, chunk)] = chunk
        if not running:
            return
        done = wait(running, LOOK_SECONDS, FIRST_COMPLETED).done
        for future in done:
            yield running.pop(future), future.result()
        if not done:
            look()


def _begin() -> None:
    """One thread a process, and memory that it keeps; its end, as by Ctrl-C, is that of who hands out the work."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    recycle_memory()


def _silent(_record: logging.LogRecord) -> bool:
    return False
