"""What a pass asks of whoever computes its chunks."""

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from transformer.atlas.corpus import Chunk
from transformer.atlas.summarise import Plan, summarise
from transformer.atlas.tables import part_of

ATTEMPTS = 3
"""How often a chunk is tried whose worker died over it; then it is the chunk that kills them."""


@runtime_checkable
class Executor(Protocol):
    """Computes chunks, in any order."""

    def parts(self, plan: Plan, run: str, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
        """Each chunk with its part, as they are finished. Chunks are taken few at a time.

        Raises:
            AtlasError: workers are lost again and again, or cannot be reached.
        """


def work(plan: Plan, run: str, chunk: Chunk) -> bytes:
    """What a worker does: the part of a chunk."""
    return part_of(summarise(plan, chunk), run)
