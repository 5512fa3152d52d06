"""Where a sequence lies in a longer one: its header says so in the ways of the tools that cut it out, or a person does.

Forms: samtools faidx and NCBI (`chr11:100-200`, `NC_000011.10:c200-100`), bedtools getfasta (`chr11:99-200(-)`, from
0), UCSC (`range=chr11:100-200 ... strand=-`), Ensembl (`chromosome:GRCh38:11:100:200:-1`).
"""

import re
from dataclasses import dataclass

from ..errors import InputError
from .fasta import FastaRecord

_PLACE = r"(\d[\d,]{0,11})"
_FORMS = (
    re.compile(rf"\brange=([^\s:]+):{_PLACE}-{_PLACE}(?=\s).*\bstrand=([+-])", re.ASCII),
    re.compile(rf"(?:^|\s)[a-z_]+:[^\s:]+:([^\s:]+):{_PLACE}:{_PLACE}:(-?1)\b", re.ASCII),
    re.compile(rf"^(?:\S*::)?([^\s:]+):c?{_PLACE}-{_PLACE}(\([+-]\)|/rc|)(?=\s|$)", re.ASCII),
)


@dataclass(frozen=True)
class Region:
    """Letters `first` to `last` (from 1, both within) of the sequence `name`; `-`: read on its other strand."""

    name: str
    first: int
    last: int
    strand: str = "+"

    def place(self, place: int) -> int:
        """Which letter of the cut (from 1) a letter of the longer sequence is."""
        return place - self.first + 1 if self.strand == "+" else self.last - place + 1

    def __str__(self) -> str:
        return f"{self.name}:{self.first}-{self.last}({self.strand})"


def region_of(record: FastaRecord) -> Region | None:
    """Where a record's header says that it lies; None where it does not, or names another number of letters.

    The number of letters tells whether places count from 1 or, as those of BED, from 0 and half-open.
    """
    return _read(f"{record.id} {record.description}", len(record.sequence))


def region_at(written: str, record: FastaRecord) -> Region:
    """Where a person says that a record lies: as headers do, or its first letter alone (`c200` on the other strand).

    Raises:
        InputError: it is neither, or names another number of letters.
    """
    length = len(record.sequence)
    if alone := re.fullmatch(f"(c?){_PLACE}", written.strip(), re.ASCII):
        at = int(alone[2].replace(",", ""))
        return Region(record.id, at - length + 1, at, "-") if alone[1] else Region(record.id, at, at + length - 1)
    found = _read(written.strip(), length)
    if found is None:
        raise InputError("region_unreadable", text=f"{written:.60}", length=length)
    return found


def _read(text: str, length: int) -> Region | None:
    for form in _FORMS:
        found = form.search(text)
        if found is None:
            continue
        first, last = sorted(int(found[i].replace(",", "")) for i in (2, 3))
        strand = "-" if {"-1", "-", "(-)", "/rc"} & {found[4]} or re.search(r":c\d", found[0]) else "+"
        first += last - first == length  # half-open, from 0
        if last - first + 1 == length:
            return Region(found[1], first, last, strand)
    return None
