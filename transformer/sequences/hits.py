"""Hits of a scan, held against known sites, and as files that genome browsers load.

Formats: BED (UCSC Genome Browser: half-open, from 0), GFF3 (closed, from 1), with types of the Sequence Ontology.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

from ..messages import Message
from .task import Landmark
from .tracks import column_name

NEAR = 3
"""Letters: of calls that lie no farther apart, at a site of its own, only the likeliest is a hit."""

TERMS = {"SO:0000163": "five_prime_cis_splice_site", "SO:0000164": "three_prime_cis_splice_site"}
"""Sequence Ontology: the first two letters of an intron, and its last two."""

FIRST, LAST = TERMS


@dataclass(frozen=True)
class Hit:
    """A call: letters (from 0, half-open) of the window that was read, and of the site in it that its class stands for.

    `term` is the Sequence Ontology's for the site. `found` are the letters at the site in the direction of its strand,
    and `expected` those that biology expects there. A class without a landmark has none: its site is the window.
    `weaker` marks a hit near which a likelier one of its class and strand lies, within half a window.
    """

    start: int
    end: int
    strand: str
    label: str
    probability: float
    site: tuple[int, int]
    term: str = ""
    found: str = ""
    expected: str = ""
    weaker: bool = False

    @property
    def place(self) -> int:
        """The letter (from 1) that the hit is known by: where an intron begins, or where it ends."""
        return place_of(self.site, self.strand, self.term)

    @property
    def window(self) -> str:
        """The letters of the window, counted from 1, and its strand: `538-597(+)`."""
        return f"{self.start + 1}-{self.end}({self.strand})"

    def said(self) -> Message:
        """What the hit is, in a sentence's part: `intron begins at 568 (+)`."""
        numbers = dict(place=self.place, strand=self.strand)
        if self.term in TERMS:
            return Message("hit_begins" if self.term == FIRST else "hit_ends", **numbers)
        if self.expected:
            return Message("hit_site", label=self.label, letters=self.expected, **numbers)
        return Message("hit_window", label=self.label, first=self.start + 1, last=self.end, strand=self.strand)


def place_of(site: tuple[int, int], strand: str, term: str) -> int:
    """The letter (from 1) of a site that it is known by: its first one as its strand is read, the last of an intron."""
    return site[0] + 1 if (strand == "+") != (term == LAST) else site[1]


def site_of(start: int, end: int, strand: str, mark: Landmark | None) -> tuple[int, int]:
    """The letters (from 0, half-open) of a window's landmark on the given strand; the whole window without one."""
    if mark is None:
        return start, end
    after = mark.start + len(mark.letters)
    return (start + mark.start, start + after) if strand == "+" else (end - after, end - mark.start)


def peaks(candidates: Iterable[tuple[int, float]], distance: int) -> list[tuple[int, float]]:
    """Starts and probabilities that no likelier candidate lies nearer to than `distance` letters; of equals the first.

    This is non-maximum suppression, likeliest first; what is left comes back along the sequence.
    """
    kept: list[int] = []
    value: dict[int, float] = {}
    for start, probability in sorted(candidates, key=lambda one: (-one[1], one[0])):
        at = bisect_left(kept, start)
        if all(abs(start - other) >= distance for other in kept[max(0, at - 1) : at + 1]):
            insort(kept, start)
            value[start] = probability
    return [(start, value[start]) for start in kept]


def with_weaker(hits: Iterable[Hit]) -> list[Hit]:
    """Hits of one class and strand, along the sequence, of which those near a likelier one are marked."""
    ordered = list(hits)
    starts = [hit.start for hit in ordered]

    def is_weaker(hit: Hit) -> bool:
        half = (hit.end - hit.start) // 2
        near = ordered[bisect_left(starts, hit.start - half + 1) : bisect_left(starts, hit.start + half)]
        return any(other.probability > hit.probability for other in near)

    return [replace(hit, weaker=is_weaker(hit)) for hit in ordered]


def bed(sequence: str, hits: Iterable[Hit]) -> str:
    """BED lines: a site, its class, 1000 times its probability, and its strand."""
    lines = []
    for hit in hits:
        score = math.floor(1000 * hit.probability)
        lines.append("\t".join(map(str, [column_name(sequence), *hit.site, column_name(hit.label), score, hit.strand])))
    return "".join(f"{line}\n" for line in lines)


def gff3(sequence: str, hits: Iterable[Hit], checkpoint: str) -> str:
    """GFF3 lines of sites, without the first line of a file (`GFF3_START`): the score is the probability.

    Attributes say the window that was read, the letters at the site, and whether a likelier hit lies near.
    """
    lines = []
    for number, hit in enumerate(hits, 1):
        label = quote(hit.label, safe="")
        cells = [quote(sequence, safe=".:^*$@!+_?-|"), quote(checkpoint, safe=""), TERMS.get(hit.term, "region")]
        cells += [str(hit.site[0] + 1), str(hit.site[1]), f"{hit.probability:.6f}", hit.strand, "."]
        said = {"ID": f"{label}{number}", "Name": label, "window": f"{hit.start + 1}-{hit.end}"}
        said |= {"letters": hit.found} if hit.expected else {}
        said |= {"weaker": "yes"} if hit.weaker else {}
        lines.append("\t".join([*cells, ";".join(f"{key}={value}" for key, value in said.items())]))
    return "".join(f"{line}\n" for line in lines)


GFF3_START = "##gff-version 3\n"
"""The first line of a GFF3 file."""


Place = tuple[str, str, int]
"""A splice site: its term in the Sequence Ontology, its strand, and the letter (from 1) that it is known by."""


def is_known(hit: Hit, known: set[Place]) -> bool:
    """Whether a hit is one of the sites that an annotation names."""
    return (hit.term, hit.strand, hit.place) in known


@dataclass(frozen=True)
class Judged:
    """Hits held against known sites: `ranks` of those that are hits, by probability from 1, and how many there are."""

    ranks: tuple[int, ...]
    n_known: int
    n_hits: int

    @property
    def precision(self) -> float | None:
        """The share of hits that are known sites; None without hits, of which there is none."""
        return len(self.ranks) / self.n_hits if self.n_hits else None


def judged(hits: Iterable[Hit], known: set[Place], signs: str) -> Judged:
    """Which hits are known sites; only sites on the strands that were read count."""
    ordered = sorted(hits, key=lambda hit: (-hit.probability, hit.start))
    ranks = tuple(rank for rank, hit in enumerate(ordered, 1) if is_known(hit, known))
    return Judged(ranks, sum(strand in signs for _, strand, _ in known), len(ordered))
