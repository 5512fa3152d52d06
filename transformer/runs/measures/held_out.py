"""How often a threshold on the probability of a class errs, counted on held-out rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ...checkpoint.checkpoint import Checkpoint
from ...errors import InputError
from ...sequences.fasta import FastaRecord
from ..sequences.classify import classifier, verdicts
from .files import MeasureFile

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Probabilities from which on a class may be called."""

FEWEST_ROWS = 200
"""Shares of fewer rows than this say nothing."""


class Point(NamedTuple):
    """A threshold on the probability of one class.

    `found` is the share of the held-out rows of this class that reach it, `false` the share of all other rows that do.
    """

    threshold: float
    found: float
    false: float


@dataclass(frozen=True)
class HeldOut:
    """What `rows` held-out rows of `data` said: `points` by class, and how many rows are `own`, of that class."""

    data: str
    rows: int
    own: Mapping[str, int]
    points: Mapping[str, tuple[Point, ...]]

    def bound(self, name: str) -> float:
        """Where no row of other classes reached a threshold of this class: the share that they still may have."""
        return never_seen_bound(self.rows - self.own[name])


def never_seen_bound(count: int) -> float:
    """The rate of what was seen in none of `count` trials is below this, with 95 % confidence: about 3 / count.

    Rounded up to a hundredth of a percent. Source: Clopper and Pearson 1934, "The use of confidence or fiducial limits
    illustrated in the case of the binomial", one-sided, for no success.
    """
    return ceil(1e4 * (1.0 - 0.05 ** (1 / count))) / 1e4


def measured(checkpoint: Checkpoint, records: Sequence[FastaRecord], labels: Sequence[str], data: str) -> HeldOut:
    """What rows of `data` say that were not trained on; `labels` are their classes.

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
        InputError: too few rows, a label that is no class, or a row that cannot be read.
    """
    _, task = classifier(checkpoint)
    if len(records) < FEWEST_ROWS:
        raise InputError("held_out_few", found=len(records), needed=FEWEST_ROWS)
    foreign = sorted(set(labels) - set(task.classes))
    if foreign:
        raise InputError("held_out_label", label=foreign[0], classes=task.classes)
    probabilities = []
    for verdict in verdicts(checkpoint, records):
        if verdict.probabilities is None:
            raise InputError("problem_of", name=verdict.id, problem=verdict.problem)
        probabilities.append(verdict.probabilities)
    truth = np.array([task.classes.index(label) for label in labels])
    own = {name: labels.count(name) for name in task.classes}
    return HeldOut(data, len(records), own, operating_points(np.array(probabilities), truth, task.classes))


def operating_points(
    probabilities: Float[np.ndarray, "row classes"], truth: Int[np.ndarray, " row"], classes: Sequence[str]
) -> dict[str, tuple[Point, ...]]:
    """For each class that has rows and other rows: what each of `THRESHOLDS` finds, and what it calls falsely."""
    found = {}
    for number, name in enumerate(classes):
        own = truth == number
        if own.any() and not own.all():
            reached = [(threshold, probabilities[:, number] >= threshold) for threshold in THRESHOLDS]
            found[name] = tuple(Point(t, float(hit[own].mean()), float(hit[~own].mean())) for t, hit in reached)
    return found


def _checked(found: HeldOut) -> HeldOut:
    if not all(0 < found.own[name] < found.rows for name in found.points):
        raise ValueError("a class without rows, or without others")
    if not all(0 <= value <= 1 for points in found.points.values() for point in points for value in point):
        raise ValueError("points that are no shares")
    return found


FILE = MeasureFile("held_out.json", "held-out", HeldOut, _checked, {}, {})
known_held_out = FILE.beside
