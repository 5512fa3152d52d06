"""Changes of a sequence, as people write them (`568 G>A`) and as VCF does, and where letters lie after one.

Places are letters of the sequence, counted from 1. Source of VCF: the specification 4.3, section 1.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from transformer.errors import InputError
from transformer.sequences.alphabet import Letters

MOST_CHANGES = 200
"""Most changes that are read at a time."""

MOST_CHANGED = 100
"""Most letters that one change takes away or brings."""

_WRITTEN = re.compile(r"(?:g\.)?(\d{1,9}) ?([A-Za-z]+) ?> ?([A-Za-z]+)", re.ASCII)


@dataclass(frozen=True)
class Change:
    """The letters `before`, the first of which is number `place` (from 1), become `after`."""

    place: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.place} {self.before}>{self.after}"

    def applied(self, text: str) -> str:
        """The sequence with this change."""
        first = self.place - 1
        return text[:first] + self.after + text[first + len(self.before) :]

    def origin(self, place: int) -> int:
        """Where a letter of the changed sequence comes from; added letters are those of the last one replaced."""
        inside = place - self.place
        if inside < 0:
            return place
        if inside < len(self.after):
            return self.place + min(inside, len(self.before) - 1)
        return place - len(self.after) + len(self.before)

    def is_lost(self, place: int) -> bool:
        """Whether the change takes a letter away without another in its place."""
        return len(self.after) <= place - self.place < len(self.before)


def read_changes(text: str, sequence: str, letters: Letters) -> list[Change]:
    """The changes that a text names: `568 G>A`, several parted by commas or lines, or the lines of a VCF.

    Of a VCF only lines of this `sequence` count.

    Raises:
        InputError: a part is no change, its letters are not those of the sequence, or there are too many.
    """
    found = list[Change]()
    elsewhere = ""
    for name, place, before, after in _written(text):
        if name not in {"", sequence}:
            elsewhere = name
            continue
        change = Change(int(place), letters.alphabet.read(before).text, letters.alphabet.read(after).text)
        stands = letters.text[change.place - 1 : change.place - 1 + len(change.before)]
        if not 1 <= change.place <= len(letters) or stands != change.before:
            raise InputError("change_elsewhere", change=str(change), letters=stands or "-", length=len(letters))
        if max(len(change.before), len(change.after)) > MOST_CHANGED:
            raise InputError("change_large", change=f"{change!s:.40}", most=MOST_CHANGED)
        found.append(change)
        if len(found) > MOST_CHANGES:
            raise InputError("changes_many", most=MOST_CHANGES)
    if elsewhere and not found:
        raise InputError("changes_of_another", found=elsewhere, name=sequence)
    return found


def _written(text: str) -> Iterator[tuple[str, str, str, str]]:
    """The name of a sequence, place, letters before and after, of each change."""
    for line in text.splitlines():
        cells = line.split("\t") if "\t" in line else line.split()
        if line.startswith("#") or not cells:
            continue
        if len(cells) >= 5 and cells[1].isdecimal():
            for after in cells[4].split(","):
                yield cells[0], cells[1], cells[3], after
            continue
        for part in filter(None, map(str.strip, re.split("[,;\uff0c\uff1b]", line))):
            written = _WRITTEN.fullmatch(part)
            if written is None:
                raise InputError("change_unreadable", text=f"{part:.40}")
            yield "", written[1], written[2], written[3]
