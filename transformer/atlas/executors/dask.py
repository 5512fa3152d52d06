"""The workers of a Dask cluster, on any number of machines.

They need this library and the checkpoint at the same path; lines of the corpus are sent to them, and sums come back.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from transformer.atlas.corpus import Chunk
from transformer.atlas.executors.executor import ATTEMPTS, work
from transformer.atlas.summarise import Plan
from transformer.errors import AtlasError
from transformer.messages import Message

SECONDS = 30
"""How long a scheduler may take to answer."""

AHEAD = 2
"""Chunks that are handed out for each thread of the cluster."""

LOOK_SECONDS = 10.0
"""How long nothing may be heard before the scheduler is asked how many workers it has."""

PATIENCE_SECONDS = 300.0
"""How long a pass waits for a worker where there is none any more."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dask:
    """Computes on the cluster whose scheduler has this address, such as `tcp://10.0.0.5:8786`."""

    address: str

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
        """Each chunk with its part, as they are finished; the scheduler gives a dead worker's chunks to another.

        Raises:
            AtlasError: Dask is not installed, the scheduler does not answer, is lost or has no worker for long, or a
                chunk kills them.
        """
        try:
            from distributed import Client
            from distributed.comm.core import CommClosedError
            from distributed.scheduler import KilledWorker
        except ImportError as error:
            raise AtlasError("atlas_no_dask") from error
        try:
            client = Client(self.address, timeout=SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise AtlasError("atlas_no_scheduler", address=self.address, reason=str(error)) from error
        with _alone(), client:
            threads = self._threads(client)
            if not threads:
                raise AtlasError("atlas_no_workers", address=self.address)
            waiting = iter(chunks)
            running: dict[Any, Chunk] = {}
            finished = SimpleQueue[Any]()

            def hand_out(count: int) -> None:
                for chunk in islice(waiting, count):
                    future = client.submit(work, plan, run, chunk, pure=False)
                    running[future] = chunk
                    future.add_done_callback(finished.put)

            hand_out(AHEAD * threads)
            while running:
                future = self._heard(client, running, partial(finished.get, timeout=LOOK_SECONDS))
                chunk = running[future]
                try:
                    part: bytes = self._heard(client, running, partial(future.result, LOOK_SECONDS))
                except KilledWorker as error:
                    raise AtlasError("atlas_worker_dies", first=chunk.first + 1, times=ATTEMPTS) from error
                except (CancelledError, CommClosedError) as error:
                    raise AtlasError("atlas_scheduler_lost", address=self.address) from error
                del running[future]
                yield chunk, part
                hand_out(1)

    def _heard(self, client: Any, running: Collection[Any], ask: Callable[[], Any]) -> Any:
        """What `ask` returns, which raises `Empty` or `TimeoutError` where nothing was heard for `LOOK_SECONDS`.

        A result too may have to be waited for: it is lost with the worker that held it, and is computed again.

        Raises:
            AtlasError: there was no worker for `PATIENCE_SECONDS`, or the scheduler is lost.
        """
        without: float | None = None
        while True:
            try:
                return ask()
            except (Empty, TimeoutError):
                if any(future.cancelled() for future in running):  # as all are when the scheduler is gone
                    raise AtlasError("atlas_scheduler_lost", address=self.address) from None
                if self._threads(client):
                    without = None
                elif without is None:
                    without = time.monotonic()
                    _log.warning("%s", Message("atlas_waits", address=self.address, seconds=PATIENCE_SECONDS))
                elif time.monotonic() - without > PATIENCE_SECONDS:
                    raise AtlasError("atlas_workers_lost", address=self.address, seconds=PATIENCE_SECONDS) from None

    def _threads(self, client: Any) -> int:
        """How many threads the cluster has by now.

        Raises:
            AtlasError: the scheduler is lost.
        """
        try:
            return sum(client.nthreads().values())
        except OSError as error:
            raise AtlasError("atlas_scheduler_lost", address=self.address) from error


@contextmanager
def _alone() -> Iterator[None]:
    """Whatever becomes of the client is said here, in a sentence; by itself it would log tracebacks."""

    def silent(_record: logging.LogRecord) -> bool:
        return False

    said = logging.getLogger("distributed.client")
    said.addFilter(silent)
    try:
        yield
    finally:
        said.removeFilter(silent)
