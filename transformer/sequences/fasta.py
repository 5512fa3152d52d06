"""FASTA: records in, one at a time, from text or from a plain or gzip file, with every length bounded."""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transformer.errors import InputError
from transformer.tokens.lines import BYTE_ORDER_MARK

GZIP = b"\x1f\x8b"
"""How a gzip file starts."""

MAX_BYTES = 64_000_000
"""Most that is read from one file, after unpacking."""


@dataclass(frozen=True)
class FastaRecord:
    """One sequence as it was written: what follows `>`, split at the first white space, and the letters."""

    id: str
    description: str
    sequence: str


def parse_fasta(lines: Iterable[str]) -> Iterator[FastaRecord]:
    """The records in `lines`; a sequence without a header is one record called `sequence`.

    Lines that are blank or start with `;` (a comment) are passed over, and so is a byte order mark. A record may be
    empty: whoever reads its letters refuses it, by name.
    """
    header, parts, started = "sequence", list[str](), False
    for raw in lines:
        line = raw.removeprefix(BYTE_ORDER_MARK).strip()
        if line.startswith(">"):
            if started:
                yield _record(header, parts)
            header, parts, started = line[1:].strip() or "sequence", [], True
        elif line and not line.startswith(";"):
            parts.append(line)
            started = True
    if started:
        yield _record(header, parts)


def read_fasta(file: io.BufferedIOBase) -> Iterator[FastaRecord]:
    """The records of a file, plain or gzip (told by its first bytes, not its name).

    Raises:
        InputError: the file is broken, is no text, or unpacks to more than `MAX_BYTES`.
    """
    yield from parse_fasta(_lines(file))


def fasta_of(data: bytes) -> Iterator[FastaRecord]:
    """The records of an uploaded file, as `read_fasta`."""
    return read_fasta(io.BytesIO(data))


def _lines(file: io.BufferedIOBase) -> Iterator[str]:
    packed = io.BufferedReader(file)
    unpacked = gzip.GzipFile(fileobj=packed) if packed.peek(2)[:2] == GZIP else packed
    left = MAX_BYTES
    try:
        while line := unpacked.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise InputError("fasta_large", most=MAX_BYTES // 1_000_000)
            yield line.decode("utf-8")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("fasta_broken", reason=str(error)) from error
    except UnicodeDecodeError as error:
        raise InputError("fasta_binary") from error
    finally:
        packed.detach()  # or the caller's file would be closed with it


def _record(header: str, parts: list[str]) -> FastaRecord:
    name, *description = header.split(maxsplit=1)
    return FastaRecord(name, "".join(description), "".join(parts))
