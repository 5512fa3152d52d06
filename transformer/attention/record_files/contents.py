"""What a record file holds: the fields of a record and of its maps, and how much of each is read."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from transformer.attention.changed import SoftmaxInputs
from transformer.attention.interventions.value import Intervention
from transformer.plots.axes import Axis
from transformer.sites import Site

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


@dataclass(frozen=True, eq=False)
class MapContents:
    """One map of a record; the fields are those of an `AttentionMap`, of a batch of one sentence."""

    site: Site
    queries: Axis
    keys: Axis
    source: SoftmaxInputs
    interventions: tuple[Intervention, ...]
    notes: tuple[str, ...]
    batch: int = 0


@dataclass(frozen=True, eq=False)
class RecordContents:
    """All maps of a record, in the order in which they ran."""

    maps: tuple[MapContents, ...]
    model: str
    text: str

    @classmethod
    def of(cls, maps: Iterable[Any], model: str, text: str) -> "RecordContents":
        """The contents of a record of `AttentionMap`s."""
        names = [field.name for field in fields(MapContents)]
        found = (MapContents(**{name: getattr(one, name) for name in names}) for one in maps)
        return cls(tuple(found), model, text)
