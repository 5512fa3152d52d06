"""Records of FASTA, one at a time, from text or from a plain or gzip file, with every length bounded."""

import codecs
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..errors import InputError
from ..messages import Message
from ..text.base import BYTE_ORDER_MARK

GZIP = b"\x1f\x8b"
"""How a gzip file starts."""

MAX_BYTES = 64_000_000
"""Most that is read from one file, after unpacking."""

OTHERS = {
    "@HD\t": "SAM", "@SQ\t": "SAM", "@RG\t": "SAM", "@PG\t": "SAM", "@": "FASTQ", "LOCUS ": "GenBank",
    "##fileformat=VCF": "VCF", "##gff-version": "GFF",
    "track ": "BED", "browser ": "BED", "CLUSTAL": "Clustal", "# STOCKHOLM": "Stockholm", "#NEXUS": "NEXUS",
    "ID   ": "EMBL",
}  # fmt: skip
"""How files begin that hold no plain sequences, and what they are called."""

_LABEL = re.compile(r"\b(?:label|class)[=:]\s*(\S+)", re.IGNORECASE)


@dataclass(frozen=True)
class FastaRecord:
    """One sequence as it was written: its name, what follows the first white space after it, and the letters."""

    id: str
    description: str
    sequence: str


def parse_fasta(lines: Iterable[str]) -> Iterator[FastaRecord]:
    """The records in `lines` of FASTA; letters without a header are one record called `sequence`.

    Lines that are blank or start with `;` (a comment) are passed over, as is a byte order mark. A record may be empty.

    Raises:
        InputError: the lines are of another format, which is named.
    """
    cleaned = (line.removeprefix(BYTE_ORDER_MARK).rstrip() for line in lines)
    first = next(filter(None, cleaned), "")
    for beginning, name in OTHERS.items():
        if first.startswith(beginning):
            raise InputError("sequences_of_another_format", format=name)
    header, parts, started = "sequence", list[str](), False
    for line in map(str.strip, chain([first], cleaned)):
        if line.startswith(">"):
            if started:
                yield _record(header, parts)
            header, parts, started = line[1:].strip() or "sequence", [], True
        elif line and not line.startswith(";"):
            parts.append("".join(line.split()))
            started = True
    if started:
        yield _record(header, parts)


def label_of(record: FastaRecord, classes: Sequence[str]) -> str:
    """The class that a record's header names; empty where it names none.

    It is looked for as `label=CLASS` or `class=CLASS` anywhere, as the first word after the name, and after the last
    `|` of the name, in this order. Only what is written exactly as a class counts.
    """
    named = _LABEL.search(record.description)
    first, last = record.description.partition(" ")[0], record.id.rpartition("|")[2]
    places = [named[1].rstrip(";,") if named else "", first, last if "|" in record.id else ""]
    return next((word for word in places if word in classes), "")


def read_fasta(file: io.BufferedIOBase) -> Iterator[FastaRecord]:
    """The records of a file, plain or gzip (told by its first bytes, not its name).

    Raises:
        InputError: the file is broken, is no text, is of another format, or unpacks to more than `MAX_BYTES`.
    """
    yield from parse_fasta(io.StringIO(text_of(file), newline=None))  # old lines end in CR alone


def fasta_of(data: bytes) -> Iterator[FastaRecord]:
    """The records of an uploaded file, as `read_fasta`."""
    return read_fasta(io.BytesIO(data))


def duplicates(records: Iterable[FastaRecord]) -> list[Message]:
    """The names that several records share, with how many each has."""
    names = Counter(record.id for record in records)
    return [Message("records_alike", name=name, count=count) for name, count in names.items() if count > 1]


def text_of(file: io.BufferedIOBase) -> str:
    """What a file holds, plain or gzip, as UTF-8, or as UTF-16 that begins with its mark; without a byte order mark.

    Raises:
        InputError: the file is broken, is no text, or unpacks to more than `MAX_BYTES`.
    """
    try:
        data = file.read(MAX_BYTES + 1)
        if data[:2] == GZIP:
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("fasta_broken", reason=str(error)) from error
    if len(data) > MAX_BYTES:
        raise InputError("fasta_large", most=MAX_BYTES // 1_000_000)
    try:
        return data.decode("utf-16" if data[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "utf-8-sig")
    except UnicodeError as error:
        raise InputError("fasta_binary") from error


def _record(header: str, parts: list[str]) -> FastaRecord:
    name, *description = header.split(maxsplit=1)
    return FastaRecord(name, "".join(description), "".join(parts))
