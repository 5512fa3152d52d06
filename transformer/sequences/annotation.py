"""Known exons: annotations read into transcripts, laid on a sequence.

Formats: GFF3 (Sequence Ontology, version 1.26) and GTF (closed, from 1), BED (UCSC Genome Browser: half-open, from 0).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

from ..errors import InputError
from ..messages import Message
from .hits import FIRST, LAST, Place
from .lines import numbered_lines, skipped
from .region import Region

FASTA_BEGINS = "##FASTA"
"""The line of GFF3 behind which sequences follow."""

_KINDS = {"exon": "exon", "CDS": "CDS", "SO:0000147": "exon", "SO:0000316": "CDS"}
"""Types that count, as names and as accessions of the Sequence Ontology."""

_OWNERS = ("Parent", "transcript_id", "gene", "gene_id", "gene_name", "ID")
"""Attributes that tell which exons belong together; the first two name a transcript."""

_GFF3 = re.compile(r'[^\s"=;]+=')
_GTF = re.compile(r'(\w+) +"?((?<=")[^"]*|[^";]*)')
"""How attributes of GFF3 begin, and one of GTF."""

_UCSC = re.compile(r"(.+)_(exon|cds|intron|utr5|utr3|up|end)_\d+_(\d+)_.+_\d+_[fr]", re.ASCII)
"""Names that the UCSC Table Browser gives to one exon a line; the number is of letters added at both ends."""

Exon = tuple[str, str, str, str, tuple[int, int]]
"""Its sequence, transcript, strand, type and letters (from 0, half-open)."""


@dataclass(frozen=True)
class Gene:
    """Exons of one transcript along a sequence: letters (from 0, half-open), in their order on the given strand."""

    name: str
    strand: str
    exons: tuple[tuple[int, int], ...]

    @property
    def sites(self) -> set[Place]:
        """Where each intron begins and ends, as the strand is read; none where no strand is named."""
        found = set()
        for (_, first), (last, _) in pairwise(self.exons):
            if last > first and self.strand in {"+", "-"}:
                begins, stops = (first + 1, last) if self.strand == "+" else (last, first + 1)
                found |= {(FIRST, self.strand, begins), (LAST, self.strand, stops)}
        return found

    def on(self, region: Region) -> "Gene":
        """The same in the letters of a region; exons may lie beyond its ends."""
        ends = (sorted(map(region.place, (begin + 1, end))) for begin, end in self.exons)
        strand = self.strand if region.strand == "+" else self.strand.translate(str.maketrans("+-", "-+"))
        return Gene(self.name, strand, tuple(sorted((first - 1, last) for first, last in ends)))


@dataclass(frozen=True)
class Annotation:
    """The transcripts of a file by the name of their sequence.

    `skipped` says the line and the reason of each line that cannot be read, `notes` what was assumed; `names` counts
    lines with exons by the sequence that they name.
    """

    genes: Mapping[str, list[Gene]]
    skipped: tuple[Message, ...]
    notes: tuple[Message, ...]
    names: Mapping[str, int]


def read_genes(text: str) -> Annotation:
    """The transcripts of an annotation.

    Of GFF3 and GTF, lines of type `exon` count, or `CDS` for a transcript without them; an exon of several parents is
    each one's. Exons that name no transcript are joined by their gene, which is noted. BED takes a line as a
    transcript of the blocks that it names, and lines without blocks as exons that share a name.

    Raises:
        InputError: no line is of either format, or there are too many.
    """
    parts: dict[tuple[str, str, str], dict[str, set[tuple[int, int]]]] = defaultdict(lambda: defaultdict(set))
    bad, notes, names, good = list[Message](), Counter[str](), Counter[str](), 0
    for number, line in numbered_lines(text.partition(FASTA_BEGINS)[0]):
        if re.match(r"(track|browser)\b", line):
            continue
        cells = line.rstrip().split("\t") if "\t" in line else line.split()
        try:
            is_bed = len(cells) > 2 and all(cell.isascii() and cell.isdecimal() for cell in cells[1:3])
            exons = list(_of_bed(cells, notes) if is_bed else _of_gff(cells, notes))
            for sequence, owner, strand, kind, place in exons:
                parts[sequence, owner, strand][kind].add(place)
                notes["no_strand"] += strand not in {"+", "-"}
            names.update({exon[0] for exon in exons})
            good += 1
        except (ValueError, IndexError):
            bad.append(skipped(number, line, Message("annotation_line")))
    if bad and not good:
        raise InputError("annotation_unreadable", first=bad[0])
    genes: dict[str, list[Gene]] = defaultdict(list)
    for (sequence, name, strand), kinds in parts.items():
        genes[sequence].append(Gene(name, strand, tuple(sorted(kinds.get("exon") or kinds["CDS"]))))
    notes["none"] = 0 if genes else good
    said = tuple(Message(f"genes_{code}", count=count) for code, count in notes.items() if count)
    return Annotation(dict(genes), tuple(bad), said, names)


def _of_gff(cells: list[str], notes: Counter[str]) -> Iterable[Exon]:
    """The exon of a line, once for each of its parents."""
    place, strand, said = _letters(int(cells[3]) - 1, int(cells[4])), cells[6], cells[8]
    kind = _KINDS.get(cells[2])
    if kind is None:
        return
    pairs = (part.strip().partition("=") for part in said.split(";"))
    named = {key: value for key, _, value in pairs} if _GFF3.match(said) else dict(_GTF.findall(said))
    key = next((key for key in _OWNERS if named.get(key)), "")
    if key not in _OWNERS[:2]:
        notes["alone" if key in {"", "ID"} else "of_gene"] += 1
    for owner in named[key].split(",") if key == "Parent" else [named.get(key, said)]:
        yield unquote(cells[0]), unquote(owner), strand, kind, place


def _of_bed(cells: list[str], notes: Counter[str]) -> Iterable[Exon]:
    """The blocks of a line, or the line as one exon."""
    sequence, start, end, name, _, strand = [*cells[:6], *["", "", "", ".", "", "."][len(cells) :]]
    begin, after = int(start), int(end)
    ucsc = _UCSC.fullmatch(name)
    if len(cells) >= 12:
        sizes, begins = ([int(one) for one in cells[i].rstrip(",").split(",")] for i in (10, 11))
        for size, first in zip(sizes, begins, strict=True):
            yield sequence, name, strand, "exon", _letters(begin + first, begin + first + size)
    elif not ucsc:
        notes["alone"] += name == "."
        yield sequence, f"{begin}-{after}" if name == "." else name, strand, "exon", _letters(begin, after)
    elif ucsc[2] in {"exon", "cds"}:
        added = int(ucsc[3])
        yield sequence, ucsc[1], strand, _KINDS.get(ucsc[2], "CDS"), _letters(begin + added, after - added)
    else:
        notes["no_exons"] += 1


def _letters(begin: int, end: int) -> tuple[int, int]:
    """Letters of an exon (from 0, half-open); ValueError for none, or such before the first."""
    if not 0 <= begin < end:
        raise ValueError(begin, end)
    return begin, end


def beyond(genes: Iterable[Gene], length: int, region: Region | None) -> Message | None:
    """How many exons lie beyond the letters of a sequence, and where (from 1); None where all lie within it.

    Where no `region` tells where it lies in a longer one, that is asked for.
    """
    exons = {exon for gene in genes for exon in gene.exons}
    far = sorted((begin, end) for begin, end in exons if begin < 0 or end > length)
    if far and region:
        return Message("genes_outside", far=len(far), count=len(exons), region=str(region))
    places = dict(first=far[0][0] + 1, last=max(end for _, end in far)) if far else {}
    return Message("genes_beyond", far=len(far), count=len(exons), length=length, **places) if far else None


def known_sites(genes: Iterable[Gene], length: int) -> set[Place]:
    """Every splice site of some transcripts that lies within a sequence."""
    return {site for gene in genes for site in gene.sites if 1 <= site[2] <= length}


def genes_on(annotation: Annotation, name: str, region: Region | None) -> list[Gene]:
    """The transcripts of a sequence by its name, and those of the region where it lies, in its own letters."""
    here = [] if region and region.name == name else annotation.genes.get(name, [])
    return [*here, *(gene.on(region) for gene in annotation.genes.get(region.name, ()))] if region else here
