"""Several processes of this machine. One that dies costs its chunk's time: the chunk is computed again by another."""

import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

import torch

from transformer.atlas.corpus import Chunk
from transformer.atlas.executors.executor import ATTEMPTS, work
from transformer.atlas.summarise import Plan
from transformer.errors import AtlasError
from transformer.runs.memory import recycle_memory
from transformer.runs.parent import end_with_parent

AHEAD = 2
"""Chunks that are handed out for each process: one to work at, one to begin with at once."""


@dataclass(frozen=True)
class Processes:
    """Computes in `count` processes of one thread each, which are started afresh (spawned) and loaded once."""

    count: int

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
        """Each chunk with its part, as they are finished.

        Raises:
            AtlasError: a chunk's worker died `ATTEMPTS` times.
        """
        waiting = iter(chunks)
        again: list[tuple[Chunk, int]] = []
        while True:
            pool = ProcessPoolExecutor(self.count, get_context("spawn"), initializer=_begin)
            running: dict[Future[bytes], tuple[Chunk, int]] = {}
            try:
                while True:
                    again += [
                        (chunk, 1) for chunk in islice(waiting, max(0, AHEAD * self.count - len(running) - len(again)))
                    ]
                    while again and len(running) < AHEAD * self.count:
                        running[pool.submit(work, plan, run, again[0][0])] = again[0]
                        del again[0]  # only now: a pool that is broken takes nothing
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        part = future.result()
                        yield running.pop(future)[0], part
            except BrokenProcessPool as error:
                for chunk, tries in running.values():
                    if tries == ATTEMPTS:
                        raise AtlasError("atlas_worker_dies", first=chunk.first + 1, times=ATTEMPTS) from error
                again += [(chunk, tries + 1) for chunk, tries in running.values()]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """One thread a process, and memory that it keeps; its end, as by Ctrl-C, is that of who hands out the work."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    recycle_memory()
