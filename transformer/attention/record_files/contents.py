"""What a record file is called, and how much of it is read."""

VERSION = 1
"""The version that is written, and the newest that is read."""

KEY = "heedmap"
"""The name of the JSON table in the metadata of the safetensors file."""

ENDING = ".heedmap"
"""How the name of a record file ends."""


def is_record(file: str) -> bool:
    """Whether a file of this name is a record."""
    return file.lower().endswith(ENDING)


MOST_SITES = 4_096
MOST_COUNT_OF_AXES = 2 * MOST_SITES
MOST_SITE_CHARACTERS = 500
MOST_HEADS = 4_096
MOST_POSITIONS = 65_536
"""Queries or keys of one site: four times the longest run that the pages show."""

MOST_NOTES = 100
"""Notes of one site."""

MOST_MESSAGE_PARTS = 50_000
"""Codes, texts and numbers of all messages (notes, names and labels of axes) of one file."""

MOST_CHANGED_POSITIONS = 5_000_000
"""Numbers (heads, rows, keys, weights) of the interventions of all maps: each is looked at where one is shown."""
