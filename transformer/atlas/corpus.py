"""A corpus as it lies in its files: counted once, then read chunk by chunk, so memory does not grow with it.

A text is a sentence a line (UTF-8, only a line feed ends a line, as in `tokens.lines`); a target translates its source
line by line. Sequences are FASTA. A line that cannot be read is left out and named, and the others stay where they are.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from transformer.errors import InputError
from transformer.sequences.fasta import read_fasta
from transformer.text.lines import BYTE_ORDER_MARK

LINES_A_CHUNK = 1_000
"""Lines that are summed up together: some seconds of work, and at most so much is done again after a stop."""

MAX_LINE = 10_000
"""Bytes of the longest line that is read; of a longer one no more than this comes into memory."""


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
            yield from _records(self.source)
        elif self.target is None:
            yield from ((line, None) for line in file_lines(self.source))
        else:
            sources, targets = file_lines(self.source), file_lines(self.target)
            count = 0
            while (line := next(sources, None)) is not None:
                other = next(targets, None)
                if other is None:
                    more = count + 1 + sum(1 for _ in sources)
                    raise _differ(self.source, more, self.target, count)
                count += 1
                yield line, other
            if next(targets, None) is not None:
                raise _differ(self.source, count, self.target, count + 1 + sum(1 for _ in targets))

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


def digest(path: Path) -> str:
    """The SHA-256 of a file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError("file_unreadable", path=str(path), reason=error.strerror) from error


def file_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends, of longer ones only `MAX_LINE` bytes and one more.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            mark = BYTE_ORDER_MARK.encode()
            if file.read(len(mark)) != mark:
                file.seek(0)
            while line := file.readline(MAX_LINE + 1):
                rest = line
                while not rest.endswith(b"\n") and (rest := file.readline(MAX_LINE)):
                    pass
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except OSError as error:
        raise InputError("file_unreadable", path=str(path), reason=error.strerror) from error


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


def _records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    try:
        with path.open("rb") as file:
            for record in read_fasta(file):
                yield record.sequence.encode(), f"{record.id} {record.description}".strip().encode()
    except OSError as error:
        raise InputError("file_unreadable", path=str(path), reason=error.strerror) from error


def _differ(source: Path, n_source: int, target: Path, n_target: int) -> InputError:
    return InputError(
        "atlas_lines_differ", source=str(source), source_lines=n_source, target=str(target), target_lines=n_target
    )
