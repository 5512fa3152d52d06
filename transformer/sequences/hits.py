"""Hits of a scan: windows whose class is likelier than a threshold and than all near them, and the files that say so.

Formats: BED (UCSC Genome Browser: half-open, from 0) and GFF3 (Sequence Ontology: closed, from 1).
"""

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

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


def peaks(candidates: Iterable[tuple[int, float]], apart: int) -> list[tuple[int, float]]:
    """Starts and probabilities that no likelier candidate lies nearer to than `apart` letters; of equals the first.

    This is non-maximum suppression, likeliest first; what is left comes back along the sequence.
    """
    kept: list[int] = []
    value: dict[int, float] = {}
    for start, probability in sorted(candidates, key=lambda one: (-one[1], one[0])):
        at = bisect_left(kept, start)
        if all(abs(start - other) >= apart for other in kept[max(0, at - 1) : at + 1]):
            insort(kept, start)
            value[start] = probability
    return [(start, value[start]) for start in kept]


def bed(sequence: str, hits: Iterable[Hit], task: SequenceTask) -> str:
    """BED lines: a window, its class, 1000 times its probability, its strand, and its landmark as the thick part."""
    lines = []
    for hit in hits:
        score = math.floor(1000 * hit.probability)
        cells = [column_name(sequence), hit.start, hit.end, column_name(hit.label), score, hit.strand]
        lines.append("\t".join(map(str, [*cells, *landmark_of(hit, task)])))
    return "".join(f"{line}\n" for line in lines)


def gff3(sequence: str, hits: Iterable[Hit], checkpoint: str) -> str:
    """GFF3 lines, without the first line of a file (`GFF3_START`): the score is the probability."""
    lines = []
    for number, hit in enumerate(hits, 1):
        label = quote(hit.label, safe="")
        cells = [quote(sequence, safe=".:^*$@!+_?-|"), quote(checkpoint, safe=""), "sequence_feature"]
        cells += [str(hit.start + 1), str(hit.end), f"{hit.probability:.6f}", hit.strand, "."]
        lines.append("\t".join([*cells, f"ID={label}{number};Name={label}"]))
    return "".join(f"{line}\n" for line in lines)


GFF3_START = "##gff-version 3\n"
"""The first line of a GFF3 file."""


def landmark_of(hit: Hit, task: SequenceTask) -> tuple[int, int]:
    """The letters (from 0, half-open) where biology expects the mark of a hit's class; the whole window without one."""
    for mark in task.landmarks:
        if mark.label == hit.label:
            after = mark.start + len(mark.letters)
            if hit.strand == "+":
                return hit.start + mark.start, hit.start + after
            return hit.end - after, hit.end - mark.start
    return hit.start, hit.end
