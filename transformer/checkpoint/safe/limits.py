"""How much of a stranger's file is read: every size is checked against these before memory is taken."""

from dataclasses import dataclass

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class ReadLimits:
    """Bounds of one read.

    Sizes are bytes where the name says so; `seconds` bounds the look at a file's structure, not the copying of
    weights, which `file_bytes` bounds. Peak memory is about twice the file.
    """

    file_bytes: int = 1024 * MEGABYTE
    tensors: int = 20_000
    dimensions: int = 8
    archive_entries: int = 25_000
    header_bytes: int = 16 * MEGABYTE
    vocabulary_bytes: int = 64 * MEGABYTE
    pickle_bytes: int = 64 * MEGABYTE
    pickle_steps: int = 1_000_000
    container_items: int = 100_000
    depth: int = 64
    name_characters: int = 1_000
    seconds: float = 30.0


DEFAULT_LIMITS = ReadLimits()
"""What `load` and `report` use unless told otherwise."""
