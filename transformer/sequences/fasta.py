"""Records of sequences, one at a time, from text or from a plain or gzip file, with every length bounded.

FASTA, FASTQ (its qualities are passed over), GenBank and tables are told apart by how they begin.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from transformer.errors import InputError
from transformer.tokens.lines import BYTE_ORDER_MARK

GZIP = b"\x1f\x8b"
"""How a gzip file starts."""

MAX_BYTES = 64_000_000
"""Most that is read from one file, after unpacking."""

OTHERS = {
    "@HD\t": "SAM", "@SQ\t": "SAM", "@RG\t": "SAM", "@PG\t": "SAM", "##fileformat=VCF": "VCF", "##gff-version": "GFF",
    "track ": "BED", "browser ": "BED", "CLUSTAL": "Clustal", "# STOCKHOLM": "Stockholm", "#NEXUS": "NEXUS",
    "ID   ": "EMBL",
}  # fmt: skip
"""How files begin that hold no plain sequences, and what they are called."""

SEQUENCE, NAMES, LABELS = "sequence", ("id", "name"), ("label", "class")
"""Columns of a table: that of the letters, which it needs, of names and of classes."""


@dataclass(frozen=True)
class FastaRecord:
    """One sequence as it was written: its name, what follows the first white space after it, and the letters."""

    id: str
    description: str
    sequence: str


def parse_fasta(lines: Iterable[str]) -> Iterator[FastaRecord]:
    """The records in `lines` of FASTA, FASTQ or GenBank; letters without a header are one record called `sequence`.

    A table, divided by tabs or commas, has a first line that names its columns, one of them `sequence`; `label` or
    `class` says the class of each row, which `label_of` finds. A byte order mark is passed over. A record may be empty:
    whoever reads its letters refuses it, by name.

    Raises:
        InputError: the lines are of another format, which is named, or end inside a record of FASTQ.
    """
    cleaned = (line.removeprefix(BYTE_ORDER_MARK).rstrip() for line in lines)
    first = next((line for line in cleaned if line.strip()), None)
    if first is None:
        return
    for beginning, name in OTHERS.items():
        if first.startswith(beginning):
            raise InputError("sequences_of_another_format", format=name)
    parse: Callable[[Iterable[str]], Iterator[FastaRecord]] = _fasta
    if first.startswith("@"):
        parse = _fastq
    elif first.startswith("LOCUS "):
        parse = _genbank
    elif SEQUENCE in (columns := _cells(first.lower(), _divider(first))) and len(columns) > 1:
        parse = _table
    yield from parse(chain([first], cleaned))


def read_fasta(file: io.BufferedIOBase) -> Iterator[FastaRecord]:
    """The records of a file, plain or gzip (told by its first bytes, not its name).

    Raises:
        InputError: the file is broken, is no text, is of another format, or unpacks to more than `MAX_BYTES`.
    """
    yield from parse_fasta(_lines(file))


def fasta_of(data: bytes) -> Iterator[FastaRecord]:
    """The records of an uploaded file, as `read_fasta`."""
    return read_fasta(io.BytesIO(data))


def _fasta(lines: Iterable[str]) -> Iterator[FastaRecord]:
    """Lines that are blank or start with `;` (a comment) are passed over."""
    header, parts, started = "sequence", list[str](), False
    for raw in lines:
        line = raw.strip()
        if line.startswith(">"):
            if started:
                yield _record(header, parts)
            header, parts, started = line[1:].strip() or "sequence", [], True
        elif line and not line.startswith(";"):
            parts.append(line)
            started = True
    if started:
        yield _record(header, parts)


def _divider(line: str) -> str:
    return "\t" if "\t" in line else ","


def _cells(line: str, divider: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(divider)]


def _table(lines: Iterable[str]) -> Iterator[FastaRecord]:
    """A record a row; a row that is too short has no letters."""
    rows = iter(lines)
    first = next(rows)
    divider = _divider(first)
    columns = _cells(first.lower(), divider)
    for number, line in enumerate((line for line in rows if line.strip()), 1):
        row = dict(zip(columns, _cells(line, divider), strict=False))
        name = next((row[column] for column in NAMES if row.get(column)), str(number))
        label = next((row[column] for column in LABELS if row.get(column)), "")
        yield FastaRecord(name, f"label={label}" if label else "", row.get(SEQUENCE, ""))


def _fastq(lines: Iterable[str]) -> Iterator[FastaRecord]:
    """A record may go over several lines; a quality may begin with `@`, so qualities are counted."""
    rest = iter(lines)
    for line in rest:
        if not line:
            continue
        header = line[1:].strip() or "sequence"
        parts, quality, plus = list[str](), 0, False
        for letters_line in rest:
            if letters_line.startswith("+"):
                plus = True
                break
            parts.append(letters_line.strip())
        letters = sum(map(len, parts))
        while quality < letters and (following := next(rest, None)) is not None:
            quality += len(following.strip())
        if not plus or quality != letters or not line.startswith("@"):
            raise InputError("fastq_broken", name=header.split()[0])
        yield _record(header, parts)


def _genbank(lines: Iterable[str]) -> Iterator[FastaRecord]:
    """Its version, accession or locus is a record's name, its definition what describes it."""
    fields, parts, key, origin = dict[str, str](), list[str](), "", False
    for line in lines:
        if line.startswith("//"):
            yield _of_fields(fields, parts)
            fields, parts, key, origin = {}, [], "", False
        elif origin:
            parts.append("".join(letter for letter in line if not letter.isdecimal() and not letter.isspace()))
        elif line.startswith("ORIGIN"):
            origin = True
        elif line[:1].strip():
            key, _, value = line.partition(" ")
            fields[key] = value.strip()
        elif key == "DEFINITION" and line.startswith(" " * 12):
            fields[key] += f" {line.strip()}"
        else:
            key = ""
    if fields or parts:
        yield _of_fields(fields, parts)


def _of_fields(fields: dict[str, str], parts: list[str]) -> FastaRecord:
    named = next((fields[key] for key in ("VERSION", "ACCESSION", "LOCUS") if fields.get(key)), "sequence")
    return FastaRecord(named.split()[0], fields.get("DEFINITION", ""), "".join(parts))


class _Bounded(io.RawIOBase):
    """Bytes of another file, up to `MAX_BYTES` of them; closing it leaves that file open."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        super().__init__()
        self.file, self.left = file, MAX_BYTES

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:  # a memory view
        """The next bytes.

        Raises:
            InputError: there are more than are read from one file.
        """
        # `read1` gives what is there, before it is seen that the rest is broken.
        found = self.file.read1(min(len(buffer), self.left + 1))
        self.left -= len(found)
        if self.left < 0:
            raise InputError("fasta_large", most=MAX_BYTES // 1_000_000)
        buffer[: len(found)] = found
        return len(found)


def _lines(file: io.BufferedIOBase) -> Iterator[str]:
    """Lines of UTF-8, or of UTF-16 that begins with its mark, whichever way they end (old ones end in CR alone)."""
    packed = io.BufferedReader(file)
    unpacked: io.BufferedIOBase = packed
    try:
        if packed.peek(2)[:2] == GZIP:
            unpacked = gzip.GzipFile(fileobj=packed)
        text = io.BufferedReader(_Bounded(unpacked))
        wide = text.peek(2)[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
        yield from io.TextIOWrapper(text, "utf-16" if wide else "utf-8", newline=None)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("fasta_broken", reason=str(error)) from error
    except UnicodeError as error:
        raise InputError("fasta_binary") from error
    finally:
        packed.detach()  # or the caller's file would be closed with it


def _record(header: str, parts: list[str]) -> FastaRecord:
    name, *description = header.split(maxsplit=1)
    return FastaRecord(name, "".join(description), "".join(parts))
