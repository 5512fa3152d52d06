"""An atlas of a text that is held in memory, made a few lines at a time: what a page runs for its reader.

The same code as a pass over files, without a folder: nothing is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from transformer.atlas import result
from transformer.atlas.accumulators import Accumulator
from transformer.atlas.adapters import subject_of
from transformer.atlas.corpus import Chunk, Corpus
from transformer.atlas.corpus_stats import survey
from transformer.atlas.summarise import KEPT, sums_of
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.concurrency import forward_slot
from transformer.sequences.fasta import fasta_of

LINES_A_STEP = 16
"""Lines between two looks at whether to go on."""

NAME = Path("text")
"""What a text without a file is called in messages."""


@dataclass(frozen=True)
class Held(Corpus):
    """Lines, with their targets where there are some, in the place of files."""

    pairs: tuple[tuple[bytes, bytes | None], ...] = ()

    def lines(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Every line with its target."""
        return iter(self.pairs)


def held_text(source: str, target: str | None, most: int) -> Held:
    """A sentence a line; empty lines are left out, together with their translations.

    Raises:
        InputError: there is nothing, there are more than `most` lines, or another number of translations.
    """
    lines = source.split("\n")
    others = None if target is None or not target.strip() else target.split("\n")
    if others is not None and len(_ended(lines)) != len(_ended(others)):
        raise InputError(
            "atlas_lines_differ", source="text", source_lines=len(_ended(lines)), target="translations",
            target_lines=len(_ended(others)),
        )  # fmt: skip
    pairs = tuple(
        (line.encode(), None if others is None else others[i].encode()) for i, line in enumerate(lines) if line.strip()
    )
    _count(len(pairs), most)
    return Held(NAME, None if others is None else Path("translations"), False, pairs)


def held_fasta(data: bytes, most: int) -> Held:
    """The records of FASTA.

    Raises:
        InputError: it cannot be read, there is nothing, or there are more than `most` records.
    """
    pairs: list[tuple[bytes, bytes | None]] = []
    for record in fasta_of(data):
        pairs.append((record.sequence.encode(), f"{record.id} {record.description}".strip().encode()))
        _count(len(pairs), most)
    _count(len(pairs), most)
    return Held(NAME, None, True, tuple(pairs))


class Making:
    """An atlas that is being made: its `steps`, then `tables`."""

    def __init__(self, checkpoint: Checkpoint, corpus: Held) -> None:
        """Look through the text.

        Raises:
            InputError: it is in another language, or not for this checkpoint.
            CheckpointError: the checkpoint cannot read it.
        """
        self._looked = survey(checkpoint, corpus)
        self._subject = subject_of(checkpoint, self._looked.counts)
        self._chunks: Sequence[Chunk] = tuple(corpus.chunks(LINES_A_STEP))
        self._found = Accumulator()
        self._checkpoint, self._corpus = checkpoint.name, corpus

    @property
    def total(self) -> int:
        """How many lines there are."""
        return len(self._corpus.pairs)

    def steps(self) -> Iterator[int]:
        """Measure the text, and say after each step how many lines that were."""
        for chunk in self._chunks:
            with forward_slot():
                self._found.add(sums_of(self._subject, chunk), KEPT)
            yield len(chunk.lines)

    def tables(self) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """`heads`, `pairs`, `words` and `examples` (see `result`) of what was done, and what `run.json` says of them.

        Raises:
            InputError: no line could be run.
        """
        outcome = result.outcome_of(self._found, self._looked.notes, str(NAME))
        files = {side: path.name for side, path in self._corpus.files.items()}
        return result.tables_of(self._found, result.Beside(self._subject.tokens)), {
            "checkpoint": self._checkpoint,
            **files,
            **outcome,
        }


def _ended(lines: Sequence[str]) -> Sequence[str]:
    """Lines without empty ones at the end."""
    count = len(lines)
    while count and not lines[count - 1].strip():
        count -= 1
    return lines[:count]


def _count(found: int, most: int) -> None:
    if not found:
        raise InputError("atlas_empty", path=str(NAME))
    if found > most:
        raise InputError("atlas_many_lines", most=most)
