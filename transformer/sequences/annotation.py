"""Known exons along a sequence, read from GFF3, GTF or BED, and the splice sites between them.

A GFF3 file may hold its sequences too, behind `##FASTA`. GFF3 and GTF count closed from 1, BED half-open from 0.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from transformer.errors import InputError
from transformer.sequences.hits import FIRST, LAST, Hit

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
                begins, ends = (first + 1, last) if self.strand == "+" else (last, first + 1)
                found |= {(FIRST, self.strand, begins), (LAST, self.strand, ends)}
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
