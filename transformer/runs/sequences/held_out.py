"""What held-out rows say of a sequence classifier: how often a threshold errs, and which inputs are unlike its own.

Three counts tell an input that is unlike: the share of G and C (of any two named groups of letters it is the one that
genomes differ in most), how varied its neighbouring pairs of letters are, and its unknown letters. The distance of the
pooled state to those of the training rows was tried beside them and is not used: on the shipped splice classifier it
tells random letters, plant DNA and promoters from splice sites no better than chance (1 to 2 of 100 at 2 % false
alarms), for its class "neither" was trained on everything.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.messages import Message
from transformer.runs.measures import files
from transformer.runs.sequences.classify import classifier, verdicts
from transformer.sequences.alphabet import Alphabet
from transformer.sequences.fasta import FastaRecord
from transformer.sequences.task import SequenceTask

FILE = "held_out.json"
"""What held-out rows said of a shipped classifier, beside its weights."""

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Probabilities from which on a class may be called."""

TAIL = 0.01
"""The share of held-out rows that lie outside each bound."""

MOST_UNKNOWN = 0.1
"""A larger share of unknown letters is unlike anything: the rest of the letters would decide alone."""

FEWEST_ROWS = 100
"""Quantiles of fewer rows than this say nothing."""


@dataclass(frozen=True)
class Point:
    """A threshold on the probability of one class.

    `found` is the share of the held-out rows of this class that reach it, `false` the share of all other rows that do.
    """

    threshold: float
    found: float
    false: float


@dataclass(frozen=True)
class Composition:
    """What is counted of a sequence: its share of G and C, the entropy of its pairs (bits), its share of unknowns.

    NaN where nothing is left to count; where letters have no other strand (proteins), G and C are none, and count as 0.
    """

    gc: float
    pairs: float
    unknown: float


@dataclass(frozen=True)
class HeldOut:
    """What `rows` held-out rows said: `points` by class; bounds of their composition; false alarms of these bounds.

    `false_alarms` is the share of rows that are called unlike by bounds made of the other half of them.
    """

    rows: int
    points: Mapping[str, tuple[Point, ...]]
    gc: tuple[float, float]
    pairs: float
    false_alarms: float

    def reasons(self, found: Composition, length: int, task: SequenceTask) -> tuple[Message, ...]:
        """Why a sequence is unlike what the classifier was trained on; none for one that is not."""
        reasons = []
        if length != task.length:
            reasons.append(Message("unlike_length", found=length, trained=task.length))
        if found.unknown > MOST_UNKNOWN:
            reasons.append(Message("unlike_unknown", found=found.unknown))
        if found.gc < self.gc[0] or found.gc > self.gc[1]:  # NaN is neither
            reasons.append(Message("unlike_gc", found=found.gc, least=self.gc[0], most=self.gc[1]))
        if found.pairs < self.pairs:
            reasons.append(Message("unlike_pairs", found=found.pairs, least=self.pairs))
        return tuple(reasons)


def composition(text: str, alphabet: Alphabet) -> Composition:
    """The counts of one sequence; pairs that hold an unknown letter are not counted."""
    ids = alphabet.id_array(text).astype(int)
    known = ids < alphabet.unknown_id
    strong = [alphabet.letters.index(letter) for letter in "GC"] if alphabet.complement else []
    n_known = int(known.sum())
    gc = float(np.isin(ids[known], strong).mean()) if n_known else np.nan
    both = known[:-1] & known[1:]
    pairs = (ids[:-1] * len(alphabet) + ids[1:])[both]
    return Composition(gc, _entropy(pairs) if len(pairs) else np.nan, 1 - n_known / max(1, len(ids)))


def measured(checkpoint: Checkpoint, records: Sequence[FastaRecord], labels: Sequence[str]) -> HeldOut:
    """What rows say that were not trained on; `labels` are their classes.

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
    counted = [composition(task.alphabet.read(one.sequence).text, task.alphabet) for one in records]
    values = np.array([(one.gc, one.pairs) for one in counted])
    low, high, pairs = _bounds(values)
    halves = (values[::2], values[1::2])
    alarms = np.concatenate([_outside(this, _bounds(other)) for this, other in (halves, halves[::-1])])
    return HeldOut(
        len(records),
        operating_points(np.array(probabilities), truth, task.classes),
        (low, high),
        pairs,
        float(alarms.mean()),
    )


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


def known_held_out(checkpoint: Checkpoint) -> HeldOut | None:
    """What lies beside a checkpoint's weights, if anything; as `files.beside`."""
    return files.beside(checkpoint, FILE, read_held_out)


def write_held_out(path: Path, found: HeldOut) -> None:
    """Write what `read_held_out` reads; as `files.write`."""
    about = asdict(found)
    about["points"] = {name: [[p.threshold, p.found, p.false] for p in points] for name, points in found.points.items()}
    files.write(path, json.loads(json.dumps(about), parse_float=lambda text: round(float(text), 4)))


def read_held_out(path: Path) -> HeldOut:
    """What a file says of held-out rows; as `files.read`."""
    return files.read(path, _held_out, "held-out")


def _held_out(about: Any) -> HeldOut:
    points = {str(name): tuple(_point(one) for one in rows) for name, rows in about["points"].items()}
    low, high = (float(value) for value in about["gc"])
    return HeldOut(int(about["rows"]), points, (low, high), float(about["pairs"]), float(about["false_alarms"]))


def _point(about: Any) -> Point:
    point = Point(*map(float, about))
    if not all(0 <= value <= 1 for value in (point.threshold, point.found, point.false)):
        raise ValueError(f"{about} are no shares")
    return point


def _bounds(values: Float[np.ndarray, "row count"]) -> tuple[float, float, float]:
    low, high = np.nanquantile(values[:, 0], [TAIL, 1 - TAIL])
    return float(low), float(high), float(np.nanquantile(values[:, 1], TAIL))


def _outside(values: Float[np.ndarray, "row count"], bounds: tuple[float, float, float]) -> Any:
    low, high, pairs = bounds
    return (values[:, 0] < low) | (values[:, 0] > high) | (values[:, 1] < pairs)


def _entropy(values: Int[np.ndarray, " value"]) -> float:
    _, counts = np.unique(values, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())
