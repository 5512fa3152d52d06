"""Changes of a sequence, and what each does to its sites: the probability of each near it, before and after.

Changes are written as people do (`568 G>A`, `NAME:g.568G>A`, `NAME-568-G-A`) or as VCF (specifications 4.3 and 4.4,
section 1); places are letters, counted from 1. Source of the convention: Jaganathan et al. 2019, "SpliceAI": scores of
gained and lost sites within 50 letters. Only windows that hold the change are read again, since others cannot differ.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...checkpoint.checkpoint import Checkpoint
from ...errors import InputError
from ...messages import Message
from ...sequences.alphabet import Letters
from ...sequences.hits import Hit
from ...sequences.lines import numbered_lines, shortened, skipped
from ...sequences.region import Region
from .classify import classifier
from .scan import hit_at, plan_scan

MOST_CHANGED = 100
"""Most letters that one change takes away or brings."""

_WRITTEN = (
    re.compile(r"(?:(\S+):)?(?:g\.)?(\d{1,10}) ?([A-Za-z]+) ?> ?([A-Za-z]+)", re.ASCII),
    re.compile(r"(\S+)[-:](\d{1,10})[-:]([A-Za-z]+)[-:>]([A-Za-z]+)", re.ASCII),
)

_PLACE = re.compile(r"\d{1,10}", re.ASCII)

_NO_LETTERS = {"": "empty", ".": "empty", "-": "empty", "*": "overlapped"}
"""Alleles that name no letters: why each cannot be computed."""


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


@dataclass(frozen=True)
class Changes:
    """The changes of one sequence that were read.

    `notes` say what was not used, `skipped` counts those that cannot be computed, `names` lines by the sequence that
    they name.
    """

    found: tuple[Change, ...]
    notes: list[Message]
    skipped: int
    names: Mapping[str, int]


def read_changes(text: str, sequence: str, letters: Letters, region: Region | None = None) -> Changes:
    """The changes that a text names: `568 G>A`, several parted by commas or lines, or the lines of a VCF.

    Of a VCF only lines of this `sequence` count, and those of the `region` where it lies, which are put into its own
    letters. A change that cannot be computed stops no other.

    Raises:
        InputError: there are too many lines.
    """
    found, bad, outside, names = list[Change](), list[Message](), 0, Counter[str]()
    for number, line in numbered_lines(text):
        written = list(_written(line))
        names.update({name for name, *_ in written if name})
        for name, place, before, after in written:
            there = region if region and name == region.name else None
            if there is None and name not in {"", sequence}:
                continue
            try:
                change = _change(place, before, after, letters, there)
                outside += change is None
                found += [change] if change else []
            except InputError as error:
                bad.append(skipped(number, line, error.message))
    beyond = [Message("changes_outside", count=outside, region=str(region))] if outside else []
    return Changes(tuple(found), [*shortened(bad), *beyond], len(bad), names)


def _written(line: str) -> Iterator[tuple[str, int, str, str | None]]:
    """The changes of a line: sequence, place, letters before and after; None for the last where a text is no change."""
    cells = line.split("\t") if "\t" in line else line.split()
    if len(cells) >= 5 and _PLACE.fullmatch(cells[1]):
        for after in cells[4].strip().split(","):
            yield cells[0], int(cells[1]), cells[3], after
        return
    for part in filter(None, map(str.strip, re.split("[,;\uff0c\uff1b]", line))):
        found = next(filter(None, (form.fullmatch(part) for form in _WRITTEN)), None)
        yield (found[1] or "", int(found[2]), found[3], found[4]) if found else ("", 0, " ".join(part.split()), None)


def _change(place: int, before: str, after: str | None, letters: Letters, region: Region | None) -> Change | None:
    """A change in the letters of a sequence; None where it lies beyond its region.

    Raises:
        InputError: an allele has no letters, or others than the sequence, or too many.
    """
    if after is None:
        raise InputError("change_unreadable", text=f"{before:.40}")
    for allele in (before, after):
        if allele in _NO_LETTERS:
            raise InputError(f"change_{_NO_LETTERS[allele]}", allele=allele)
        if re.search(r"[][<>]|^\.|\.$", allele):
            raise InputError("change_symbolic", allele=f"{allele:.40}")
    if max(len(before), len(after)) > MOST_CHANGED:
        raise InputError("change_large", most=MOST_CHANGED)
    alphabet, length = letters.alphabet, len(letters)
    before, after = alphabet.read(before).text, alphabet.read(after).text
    if region is not None:
        last = place + len(before) - 1
        if place < region.first or last > region.last:
            return None
        if region.strand == "-":
            place, before, after = last, alphabet.reverse_complement(before), alphabet.reverse_complement(after)
        place = region.place(place)
    if before == after:
        raise InputError("change_same")
    if not 1 <= place <= length:
        raise InputError("change_beyond", place=place, length=length)
    present, next_ = (letters.text[at : at + len(before)] for at in (place - 1, place))
    if present != before:
        raise InputError("change_elsewhere" if next_ != before else "change_from_zero", place=place, letters=present)
    return Change(place, before, after)


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
