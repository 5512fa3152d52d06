"""Changes of a sequence, and what each does to its sites: the probability of each near it, before and after.

Changes are written as people do (`568 G>A`) or as VCF (the specification 4.3, section 1); places are letters, counted
from 1. Source of the convention: Jaganathan et al. 2019, "SpliceAI": scores of gained and lost sites within 50 letters.
Only windows that hold the change are read again, since no other one can differ.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.sequences.classify import classifier
from transformer.runs.sequences.scan import hit_at, plan_scan
from transformer.sequences.alphabet import Letters
from transformer.sequences.hits import Hit

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
        present = letters.text[change.place - 1 : change.place - 1 + len(change.before)]
        if not 1 <= change.place <= len(letters) or present != change.before:
            raise InputError("change_elsewhere", change=str(change), letters=present or "-", length=len(letters))
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


WITHIN = 50
"""Letters on either side of a change at which sites are looked for."""

LEAST = 0.2
"""SpliceAI's lowest threshold (high recall) of a difference between two probabilities that counts."""

CALLED = 0.5
"""A site counts as called by the model from this probability on, where its letters are lost."""


@dataclass(frozen=True)
class Delta:
    """The probability of one site before and after a change; `was` and `found` are the letters there."""

    change: Change
    site: Hit
    place: int
    before: float
    after: float
    was: str
    found: str

    @property
    def delta(self) -> float:
        """Positive: the site is gained; negative: it is lost."""
        return self.after - self.before

    @property
    def is_broken(self) -> bool:
        """A site that is called before, and whose letters are no longer those that it needs."""
        return bool(self.site.expected) and self.before >= CALLED and self.was == self.site.expected != self.found


def deltas(checkpoint: Checkpoint, letters: Letters, change: Change, signs: str = "+-") -> list[Delta]:
    """Every site within `WITHIN` letters of a change, where its letters are there before or after it, by place."""
    changed = letters.alphabet.read(change.applied(letters.text))
    before = _sites(checkpoint, letters, change, len(change.before), signs)
    after = dict[tuple[str, str, int], Hit]()
    for hit in _sites(checkpoint, changed, change, len(change.after), signs).values():
        key = hit.label, hit.strand, change.origin(hit.place)
        if key not in after or hit.probability > after[key].probability:
            after[key] = hit
    found = []
    for (label, strand, place), hit in before.items():
        now = after.get((label, strand, place))
        if now is None and not change.is_lost(place):
            continue
        probability, there = (now.probability, now.found) if now else (0.0, "")
        far = max(change.place - place, place - (change.place + len(change.before) - 1))
        if far <= WITHIN and hit.expected in {hit.found, there}:
            found.append(Delta(change, hit, place, hit.probability, probability, hit.found, there))
    return sorted(found, key=lambda one: (one.place, one.site.strand, one.site.label))


def changed_sites(found: Iterable[Delta], least: float = LEAST) -> list[Delta]:
    """The sites that a change gains or loses, largest difference first; the largest difference alone where none is."""
    ordered = sorted(found, key=lambda one: -abs(one.delta))
    return [one for one in ordered if abs(one.delta) >= least or one.is_broken] or ordered[:1]


def _sites(
    checkpoint: Checkpoint, letters: Letters, change: Change, length: int, signs: str
) -> dict[tuple[str, str, int], Hit]:
    """The call of every window that holds one of `length` letters from the place of the change on, by its site."""
    _, task = classifier(checkpoint)
    first = max(0, change.place - task.length)
    part = letters.alphabet.read(letters.text[first : change.place - 1 + length + task.length - 1])
    plan = plan_scan(checkpoint, part, signs=signs, every=True)
    whole = plan_scan(checkpoint, letters, signs=signs, every=True)
    found = {}
    for block in plan.blocks():
        for row, sign in enumerate(signs):
            for window, values in enumerate(block.probabilities[row], first + block.first):
                for label in task.findable:
                    value = float(np.nan_to_num(values[task.classes.index(label)]))  # NaN: not read
                    hit = hit_at(whole, window, sign, label, value)
                    found[label, sign, hit.place] = hit
    return found
