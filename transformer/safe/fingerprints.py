"""A file's fingerprint: what was answered about a file is remembered under it, wherever the file moves."""

import hashlib
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path

CHUNK_BYTES = 1024 * 1024


def fingerprint(streams: Iterable[BufferedIOBase]) -> str:
    """SHA-256 of one file, or of several one after the other (a recurrent pair), in hexadecimal."""
    digest = hashlib.sha256()
    for stream in streams:
        stream.seek(0)
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def fingerprint_of(paths: Iterable[Path]) -> str:
    """As `fingerprint`, for files on disk; one is open at a time."""
    return fingerprint(_opened(paths))


def _opened(paths: Iterable[Path]) -> Iterator[BufferedIOBase]:
    for path in paths:
        with path.open("rb") as file:
            yield file
