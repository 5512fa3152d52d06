"""Hits of a scan: windows whose class is likelier than a threshold and than all near them, and the files that say so.

Formats: BED (UCSC Genome Browser: half-open, from 0) and GFF3 (Sequence Ontology: closed, from 1).
"""

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
from jaxtyping import Float, Int

from transformer.sequences.task import SequenceTask
from transformer.sequences.tracks import column_name


@dataclass(frozen=True)
class Hit:
    """One window that was called: its letters `start` to `end` (from 0, half-open), its strand, class, probability."""

    start: int
    end: int
    strand: str
    label: str
    probability: float


class Peaks:
    """Collects, block by block, the windows of one class on one strand that stand above a threshold.

    `found` keeps those that no likelier window lies nearer to than `apart` letters; of equals the first. This is
    non-maximum suppression, likeliest first. Only windows above the threshold are held.
    """

    def __init__(self, threshold: float, apart: int) -> None:
        self.threshold = threshold
        self.apart = apart
        self._candidates: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """Windows above the threshold so far."""
        return len(self._candidates)

    def add(self, starts: Int[np.ndarray, " window"], probabilities: Float[np.ndarray, " window"]) -> None:
        """Windows that start at these letters; NaN is no candidate."""
        for at in np.flatnonzero(probabilities >= self.threshold):
            self._candidates.append((float(probabilities[at]), int(starts[at])))

    def found(self) -> list[tuple[int, float]]:
        """Start and probability of each peak, along the sequence."""
        kept: list[int] = []
        value: dict[int, float] = {}
        for probability, start in sorted(self._candidates, key=lambda one: (-one[0], one[1])):
            at = bisect_left(kept, start)
            neighbours = kept[max(0, at - 1) : at + 1]
            if all(abs(start - other) >= self.apart for other in neighbours):
                insort(kept, start)
                value[start] = probability
        return [(start, value[start]) for start in kept]


def bed(sequence: str, hits: Iterable[Hit], task: SequenceTask) -> str:
    """BED lines: a window, its class, 1000 times its probability, its strand, and its landmark as the thick part."""
    lines = []
    for hit in hits:
        first, after = landmark_of(hit, task)
        score = math.floor(1000 * hit.probability)
        cells = [column_name(sequence), hit.start, hit.end, column_name(hit.label), score, hit.strand, first, after]
        lines.append("\t".join(map(str, cells)))
    return "".join(f"{line}\n" for line in lines)


def gff3(sequence: str, hits: Iterable[Hit], checkpoint: str) -> str:
    """GFF3 lines, without the first line of a file (`GFF3_START`): the score is the probability."""
    lines = []
    for number, hit in enumerate(hits, 1):
        label = quote(hit.label, safe="")
        attributes = f"ID={label}{number};Name={label}"
        cells = [quote(sequence, safe=".:^*$@!+_?-|"), quote(checkpoint, safe=""), "sequence_feature"]
        cells += [str(hit.start + 1), str(hit.end), f"{hit.probability:.6f}", hit.strand, ".", attributes]
        lines.append("\t".join(cells))
    return "".join(f"{line}\n" for line in lines)


GFF3_START = "##gff-version 3\n"
"""The first line of a GFF3 file."""


def landmark_of(hit: Hit, task: SequenceTask) -> tuple[int, int]:
    """The letters (from 0, half-open) where biology expects the mark of a hit's class; the whole window without one."""
    for mark in task.landmarks:
        if mark.label == hit.label:
            after = mark.start + len(mark.letters)
            return (
                (hit.start + mark.start, hit.start + after)
                if hit.strand == "+"
                else (hit.end - after, hit.end - mark.start)
            )
    return hit.start, hit.end
