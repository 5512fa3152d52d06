"""Hits of a scan, and known exons to hold them against: files that genome browsers load, and annotations read.

Formats: BED (UCSC Genome Browser: half-open, from 0), GFF3 and GTF (closed, from 1), with types of the Sequence
Ontology. A GFF3 file may hold its sequences too, behind `##FASTA`.
"""

import math
import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from urllib.parse import quote

from transformer.errors import InputError
from transformer.messages import Message
from transformer.sequences.task import Landmark
from transformer.sequences.tracks import column_name

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


MOST_LINES = 200_000
"""Most lines of an annotation that are read."""

FASTA_BEGINS = "##FASTA"
"""The line of GFF3 behind which sequences follow."""

_PARENT = re.compile(r'(?:Parent=|transcript_id ")([^;"]+)')

Place = tuple[str, str, int]
"""A splice site: its term in the Sequence Ontology, its strand, and the letter (from 1) that it is known by."""


@dataclass(frozen=True)
class Gene:
    """Exons of one transcript along a sequence: letters (from 0, half-open), in their order on the given strand."""

    name: str
    strand: str
    exons: tuple[tuple[int, int], ...]

    @property
    def sites(self) -> set[Place]:
        """Where each intron begins and ends, as the strand is read."""
        found = set()
        for (_, first), (last, _) in pairwise(self.exons):
            if last > first:
                begins, stops = (first + 1, last) if self.strand == "+" else (last, first + 1)
                found |= {(FIRST, self.strand, begins), (LAST, self.strand, stops)}
        return found


def read_genes(text: str) -> dict[str, list[Gene]]:
    """The transcripts of an annotation, by the name of their sequence.

    Of GFF3 and GTF, lines of type `exon` count, or `CDS` for a transcript without them. BED takes a line as a
    transcript of the blocks that it names, and lines without blocks as exons that share a name.

    Raises:
        InputError: a line is of neither format, or there are too many.
    """
    parts: dict[tuple[str, str, str], dict[str, set[tuple[int, int]]]] = defaultdict(lambda: defaultdict(set))
    for number, line in enumerate(text.partition(FASTA_BEGINS)[0].splitlines(), 1):
        if number > MOST_LINES:
            raise InputError("annotation_many", most=MOST_LINES)
        if not line.strip() or line.startswith(("#", "track", "browser")):
            continue
        cells = line.rstrip().split("\t")
        try:
            if len(cells) >= 9 and cells[3].isdecimal():
                parent = _PARENT.search(cells[8])
                owner = cells[0], parent[1] if parent else cells[8], cells[6]
                if cells[2] in {"exon", "CDS"}:
                    parts[owner][cells[2]].add((int(cells[3]) - 1, int(cells[4])))
            else:
                owner = cells[0], cells[3] if len(cells) > 3 else cells[0], cells[5] if len(cells) > 5 else "+"
                parts[owner]["exon"] |= set(_blocks(cells))
        except (ValueError, IndexError) as error:
            raise InputError("annotation_line", number=number, line=f"{line:.60}") from error
    genes: dict[str, list[Gene]] = defaultdict(list)
    for (sequence, name, strand), kinds in parts.items():
        exons = sorted(kinds.get("exon") or kinds["CDS"])
        genes[sequence].append(Gene(name, strand, tuple(exons)))
    return dict(genes)


def _blocks(cells: list[str]) -> Iterable[tuple[int, int]]:
    start, end = int(cells[1]), int(cells[2])
    if len(cells) < 12:
        return [(start, end)]
    sizes, begins = ([int(one) for one in cells[i].rstrip(",").split(",")] for i in (10, 11))
    return [(start + begin, start + begin + size) for begin, size in zip(begins, sizes, strict=True)]


def known_sites(genes: Iterable[Gene]) -> set[Place]:
    """Every splice site of some transcripts."""
    return set().union(*(gene.sites for gene in genes))


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
