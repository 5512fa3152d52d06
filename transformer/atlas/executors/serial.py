"""One chunk after the other, in this process."""

from collections.abc import Iterable, Iterator

import torch

from transformer.atlas.corpus import Chunk
from transformer.atlas.executors.executor import work
from transformer.atlas.summarise import Plan


class Serial:
    """Computes in this process, with one thread, and gives the threads back afterwards."""

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
        """Each chunk with its part, in order."""
        threads = torch.get_num_threads()
        try:
            for chunk in chunks:
                yield chunk, work(plan, run, chunk)
        finally:
            torch.set_num_threads(threads)
