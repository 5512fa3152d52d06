"""A corpus in files, read chunk by chunk so that memory does not grow with it, or one that is held in memory.

A text is a sentence a line (UTF-8, only a line feed ends a line, as in `tokens.lines`); a target translates its source
line by line. Sequences are FASTA. A line that cannot be read is left out and named, and the others stay where they are.
A survey looks through the whole before anything is run: how long it is, how often each token stands in it, and whether
it suits the checkpoint.
"""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError, InputError
from ..runs.corpus import mean_loss, tokenised
from ..sequences.fasta import FastaRecord, fasta_of, read_fasta
from ..text.base import BYTE_ORDER_MARK, Tokenizer

LINES_A_CHUNK = 1_000
"""Lines that are summed up together: some seconds of work."""

MAX_LINE = 10_000
"""Bytes of the longest line that is read; of a longer one no more than this comes into memory."""


TEXT, TRANSLATIONS = Path("text"), Path("translations")
"""What texts without a file are called in messages."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Neighbouring lines of a corpus, counted from 0. Targets of sequences are what their headers call them.

    `shows` says that examples are taken from it, `measured` that it counts. Where heads look is kept of lines whose
    `looks.drawn_by` is `drawn` at most.
    """

    index: int
    first: int
    lines: tuple[bytes, ...]
    targets: tuple[bytes, ...] | None = None
    shows: bool = True
    measured: bool = True
    drawn: float = 1.0


@dataclass(frozen=True)
class Corpus:
    """One text, two that translate each other, or sequences (`fasta`)."""

    source: Path
    target: Path | None = None
    fasta: bool = False

    def lines(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Every line with its target.

        Raises:
            InputError: a file cannot be read, or the two have different numbers of lines.
        """
        if self.fasta:
            with _opened(self.source) as file:
                yield from map(_lines_of, read_fasta(file))
        elif self.target is None:
            yield from ((line, None) for line in file_lines(self.source))
        else:
            sources, targets = file_lines(self.source), file_lines(self.target)
            for count, (line, other) in enumerate(zip_longest(sources, targets)):
                if line is None or other is None:
                    rest = count + sum(1 for _ in chain(sources, targets)) + 1
                    n_lines = (count, rest) if line is None else (rest, count)
                    raise _differ(self.source, n_lines[0], self.target, n_lines[1])
                yield line, other

    def chunks(
        self, size: int = LINES_A_CHUNK, start: int = 0, shows: bool = True, measured: bool = True, drawn: float = 1.0
    ) -> Iterator[Chunk]:
        """All lines in chunks of `size`, numbered from `start`."""
        rest, first = self.lines(), 0
        while part := list(islice(rest, size)):
            lines, targets = zip(*part, strict=True)
            known = None if targets[0] is None else targets
            yield Chunk(start + first // size, first, lines, known, shows, measured, drawn)
            first += len(part)

    @property
    def files(self) -> dict[str, Path]:
        """Its files by what they are."""
        return {"source": self.source} | ({} if self.target is None else {"target": self.target})


@dataclass(frozen=True)
class MemoryCorpus(Corpus):
    """Lines, with their targets where there are some, in the place of files."""

    pairs: tuple[tuple[bytes, bytes | None], ...] = ()

    def lines(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Every line with its target."""
        return iter(self.pairs)


def corpus_of_text(source: str, target: str | None, most: int) -> MemoryCorpus:
    """A sentence a line; empty lines are left out, together with their translations.

    Raises:
        InputError: there is nothing, there are more than `most` lines, or another number of translations.
    """
    lines = source.rstrip().split("\n")
    others = None if target is None or not target.strip() else target.rstrip().split("\n")
    if others is not None and len(lines) != len(others):
        raise _differ(TEXT, len(lines), TRANSLATIONS, len(others))
    pairs = tuple(
        (line.encode(), None if others is None else others[i].encode()) for i, line in enumerate(lines) if line.strip()
    )
    _count(len(pairs), most)
    return MemoryCorpus(TEXT, None if others is None else TRANSLATIONS, False, pairs)


def corpus_of_fasta(data: bytes, most: int) -> MemoryCorpus:
    """The records of FASTA.

    Raises:
        InputError: it cannot be read, there is nothing, or there are more than `most` records.
    """
    pairs = tuple(map(_lines_of, islice(fasta_of(data), most + 1)))
    _count(len(pairs), most)
    return MemoryCorpus(TEXT, None, True, pairs)


def _count(found: int, most: int) -> None:
    if not found:
        raise InputError("atlas_empty", path=str(TEXT))
    if found > most:
        raise InputError("atlas_many_lines", most=most)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """A file that is read.

    Raises:
        InputError: it cannot be.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError("file_unreadable", path=str(path), reason=error.strerror) from error


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends, of longer ones only `MAX_LINE` bytes and one more."""
    with _opened(path) as file:
        mark = BYTE_ORDER_MARK.encode()
        if file.read(len(mark)) != mark:
            file.seek(0)
        while line := file.readline(MAX_LINE + 1):
            rest = line
            while not rest.endswith(b"\n") and (rest := file.readline(MAX_LINE)):
                pass
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def text_of(line: bytes) -> str:
    """A line as text.

    Raises:
        InputError: it is no UTF-8, or longer than what is read.
    """
    if len(line) > MAX_LINE:
        raise InputError("atlas_line_long", most=MAX_LINE)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("atlas_line_bytes") from error


def _lines_of(record: FastaRecord) -> tuple[bytes, bytes]:
    return record.sequence.encode(), f"{record.id} {record.description}".strip().encode()


def _differ(source: Path, n_source: int, target: Path, n_target: int) -> InputError:
    return InputError(
        "atlas_lines_differ", source=str(source), source_lines=n_source, target=str(target), target_lines=n_target
    )


LOOKED_AT = 64
"""Lines at the beginning that tell whether the text is one that the checkpoint reads."""

UNKNOWN, MANY_UNKNOWN = 0.1, 0.5
"""Shares of letters in unknown tokens from which on a note warns, and from which on a text is refused."""


@dataclass(frozen=True)
class TokenCounts:
    """How often each token stands in the sources and in the targets of a corpus; None where that is not known.

    Integers of 64 bits as bytes, since plain values can be sent, compared and remembered.
    """

    source: bytes | None = None
    target: bytes | None = None


@dataclass(frozen=True)
class Survey:
    """What is known of a corpus before anything is run.

    `notes` are what a reader has to know: the rest of a code after `atlas_note_`, and its fields.
    """

    lines: int
    counts: TokenCounts = field(default_factory=TokenCounts)
    notes: tuple[tuple[str, dict[str, Any]], ...] = ()


def survey(checkpoint: Checkpoint, corpus: Corpus) -> Survey:
    """Look through a corpus.

    Raises:
        InputError: it is text for a classifier of sequences, or sequences for another model; it is empty, its sides
            differ in length, hardly a line of it is text, or it is in another language.
        CheckpointError: the checkpoint cannot read it.
    """
    if corpus.fasta != checkpoint.reads_sequences:
        raise InputError("atlas_needs_text" if corpus.fasta else "atlas_needs_sequences", name=checkpoint.name)
    if checkpoint.reads_sequences:
        n_lines = sum(1 for _ in corpus.lines())
        if not n_lines:
            raise InputError("atlas_empty", path=str(corpus.source))
        return Survey(n_lines)
    reader, writer = checkpoint.tokenizer, checkpoint.writer
    if reader is None or writer is None:
        raise CheckpointError("no_tokenizer", name=checkpoint.name)
    tokenizers, n_lines, n_read = (reader, writer), 0, 0
    counts = [np.zeros(len(one), np.int64) for one in tokenizers]
    beginning: list[list[str]] = []
    for pair in corpus.lines():
        n_lines += 1
        try:
            texts = [text_of(line) for line in pair if line is not None]
            ids = [tokenizer.encode(text) for tokenizer, text in zip(tokenizers, texts, strict=False)]
        except InputError:
            ids = [[]]
        if not ids[0]:
            continue  # the pass names it
        n_read += 1
        for counted, found in zip(counts, ids, strict=False):
            np.add.at(counted, found, 1)
        if len(beginning) < LOOKED_AT:
            beginning.append(texts)
    if not n_lines:
        raise InputError("atlas_empty", path=str(corpus.source))
    if not n_read:
        raise InputError("atlas_nothing_readable", path=str(corpus.source), lines=n_lines)
    sides = [list(side) for side in zip(*beginning, strict=True)]
    known = [counted.tobytes() for counted, _ in zip(counts, sides, strict=False)]
    return Survey(n_lines, TokenCounts(*known), tuple(_notes(checkpoint, corpus, sides)))


def _notes(checkpoint: Checkpoint, corpus: Corpus, sides: list[list[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What makes one doubt that the checkpoint was made for texts that begin so."""
    tokenizers = (checkpoint.tokenizer, checkpoint.writer)
    for tokenizer, lines, path in zip(tokenizers, sides, corpus.files.values(), strict=False):
        share = 0.0 if tokenizer is None else unknown_share(tokenizer, lines)
        fields = {"path": path.name, "percent": f"{100 * share:.0f}"}
        if share > MANY_UNKNOWN:
            raise InputError("atlas_other_language", **fields)
        if share > UNKNOWN:
            yield "unknown", fields
    if checkpoint.translates and corpus.target is not None:
        with suppress(InputError):  # none of these pairs can be run
            loss, guessing = mean_loss(checkpoint, tokenised(checkpoint, *sides)), log(len(checkpoint.translator()[2]))
            if loss > guessing:
                yield "surprised", {"loss": f"{loss:.1f}", "guessing": f"{guessing:.1f}"}


def unknown_share(tokenizer: Tokenizer, lines: list[str]) -> float:
    """The share of letters in tokens that the vocabulary lacks: the text has them otherwise than the vocabulary."""
    total = unknown = 0
    for line in lines:
        ids, pieces = tokenizer.encode(line), tokenizer.pieces(line)
        total += sum(map(len, pieces))
        unknown += sum(
            len(piece) for label, piece in zip(tokenizer.labels(ids), pieces, strict=False) if label != piece
        )
    return unknown / max(1, total)
