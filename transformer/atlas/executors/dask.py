"""The workers of a Dask cluster, on any number of machines.

They need this library and the checkpoint at the same path; lines of the corpus are sent to them, and sums come back.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from transformer.atlas.corpus import Chunk
from transformer.atlas.executors.executor import ATTEMPTS, work
from transformer.atlas.summarise import Plan
from transformer.errors import AtlasError

SECONDS = 30
"""How long a scheduler may take to answer."""

AHEAD = 2
"""Chunks that are handed out for each thread of the cluster."""


@dataclass(frozen=True)
class Dask:
    """Computes on the cluster whose scheduler has this address, such as `tcp://10.0.0.5:8786`."""

    address: str

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
        """Each chunk with its part, as they are finished; the scheduler gives a dead worker's chunks to another.

        Raises:
            AtlasError: Dask is not installed, the scheduler does not answer or has no worker, or a chunk kills them.
        """
        try:
            from distributed import Client, as_completed
            from distributed.scheduler import KilledWorker
        except ImportError as error:
            raise AtlasError("atlas_no_dask") from error
        try:
            client = Client(self.address, timeout=SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise AtlasError("atlas_no_scheduler", address=self.address, reason=str(error)) from error
        with client:
            threads = sum(client.nthreads().values())
            if not threads:
                raise AtlasError("atlas_no_workers", address=self.address)
            waiting = iter(chunks)
            running: dict[Any, Chunk] = {}
            finished = as_completed(loop=client.loop)

            def hand_out(count: int) -> None:
                for chunk in islice(waiting, count):
                    future = client.submit(work, plan, run, chunk, pure=False)
                    running[future] = chunk
                    finished.add(future)

            hand_out(AHEAD * threads)
            for future in finished:
                chunk = running.pop(future)
                try:
                    part: bytes = future.result()
                except KilledWorker as error:
                    raise AtlasError("atlas_worker_dies", first=chunk.first + 1, times=ATTEMPTS) from error
                yield chunk, part
                hand_out(1)
