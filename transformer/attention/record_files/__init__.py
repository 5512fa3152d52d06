"""A record as a file: one safetensors file, whose header holds a JSON table of sites, axes and interventions.

Only one sentence of a batch is written; what is read is a batch of one. Each intervention is written once, with its
donor's weights where the picture needs them. The file is untrusted: sizes are checked before memory is taken, and each
value where it is read; a refusal names its place in the table (`heedmap.sites[3].source.scale`).
"""

from .reading import read
from .writing import blocks, save

__all__ = ["ENDING", "blocks", "is_record", "read", "save"]

ENDING = ".heedmap"
"""How the name of a record file ends."""


def is_record(file: str) -> bool:
    """Whether a file of this name is a record."""
    return file.lower().endswith(ENDING)
