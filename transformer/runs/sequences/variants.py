"""What a change of a sequence does to its sites: the probability of each near it, before and after.

Source of the convention: Jaganathan et al. 2019, "SpliceAI": scores of gained and lost sites within 50 letters. Only
windows that hold the change are read again, since no other one can differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.sequences.classify import classifier
from transformer.runs.sequences.scan import Strands, hit_at, plan_scan
from transformer.sequences.alphabet import Letters
from transformer.sequences.hits import Hit
from transformer.sequences.variants import Change

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


def deltas(checkpoint: Checkpoint, letters: Letters, change: Change, strands: Strands = Strands.BOTH) -> list[Delta]:
    """Every site within `WITHIN` letters of a change, where its letters are there before or after it, by place.

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
        InputError: the sequence is shorter than a window.
    """
    changed = letters.alphabet.read(change.applied(letters.text))
    before = _sites(checkpoint, letters, change, len(change.before), strands)
    after = dict[tuple[str, str, int], Hit]()
    for hit in _sites(checkpoint, changed, change, len(change.after), strands).values():
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
    checkpoint: Checkpoint, letters: Letters, change: Change, length: int, strands: Strands
) -> dict[tuple[str, str, int], Hit]:
    """The call of every window that holds one of `length` letters from the place of the change on, by its site."""
    _, task = classifier(checkpoint)
    first = max(0, change.place - task.length)
    part = letters.alphabet.read(letters.text[first : change.place - 1 + length + task.length - 1])
    plan = plan_scan(checkpoint, part, strands=strands, every=True)
    whole = plan_scan(checkpoint, letters, strands=strands, every=True)
    found = {}
    for block in plan.blocks():
        for row, sign in enumerate(strands.signs):
            for window, values in enumerate(block.probabilities[row], first + block.first):
                for label in task.findable:
                    value = float(np.nan_to_num(values[task.classes.index(label)]))  # NaN: not read
                    hit = hit_at(whole, window, sign, label, value)
                    found[label, sign, hit.place] = hit
    return found
