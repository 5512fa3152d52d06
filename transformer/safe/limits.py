"""How much of an untrusted file is read: every size is checked against these before memory is taken."""

from dataclasses import dataclass

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class ReadLimits:
    """Bounds of one read.

    Sizes are bytes where the name says so; `seconds` bounds the look at a file's structure, not the copying of
    weights, which `file_bytes` bounds. Peak memory is about the file's size, beside the file itself.

    Tensors may show the same stored numbers several times (tied weights, views). What all of them show together is at
    most `repeats` times what is stored, and `spare_numbers` more, so that looking through the tensors of a file costs
    about as much as its size says. `layers` bounds what a config may ask for, however little its layers weigh: shared
    ones weigh nothing, and each takes its time in every run. The deepest published models of text have 126.
    """

    file_bytes: int = 1024 * MEGABYTE
    tensors: int = 20_000
    dimensions: int = 8
    archive_entries: int = 25_000
    header_bytes: int = 16 * MEGABYTE
    header_brackets: int = 250_000
    vocabulary_bytes: int = 64 * MEGABYTE
    pickle_bytes: int = 64 * MEGABYTE
    pickle_steps: int = 1_000_000
    container_items: int = 100_000
    depth: int = 64
    name_characters: int = 1_000
    name_parts: int = 64
    modules: int = 50_000
    layers: int = 200
    repeats: int = 4
    spare_numbers: int = 1_000_000
    seconds: float = 30.0


DEFAULT_LIMITS = ReadLimits()
"""What `load` and `report` use unless told otherwise."""
