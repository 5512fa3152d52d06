"""What the heads of a classifier look for, held against known motifs: head by head over a set of sequences."""

from collections.abc import Iterable
from dataclasses import dataclass

from transformer.runs.sequence_sets import SequenceSet
from transformer.sequences.motif_matching import KnownMotifs, MotifMatch, best_matches
from transformer.sequences.motifs import FLANK, Motif
from transformer.sites import Site

COLUMNS = (
    *("class", "width", "site", "head", "consensus", "enrichment q", "known", "name", "offset", "strand", "overlap"),
    *("distance", "p", "E", "q"),
)
"""Columns of a table of matches. `offset` counts from the first letter of the window, which flanks stand before."""


@dataclass(frozen=True, eq=False)
class HeadMatch:
    """A head's motif for one class and width, the known motif that is most like it, and how sure either is.

    `enrichment_q` is that of the motif itself, `q_value` that of the match; both over all heads.
    """

    label: str
    width: int
    site: Site
    head: int
    motif: Motif
    enrichment_q: float
    match: MotifMatch
    q_value: float

    @property
    def cells(self) -> tuple[object, ...]:
        """One row under `COLUMNS`."""
        match = self.match
        return (
            *(self.label, self.width, str(self.site), self.head, self.motif.consensus, self.enrichment_q),
            *(match.known.id, match.known.name, match.offset - FLANK, match.strand, match.overlap),
            *(match.distance, match.p_value, match.e_value, self.q_value),
        )


def head_matches(found: SequenceSet, known: KnownMotifs, label: int, width: int) -> list[HeadMatch]:
    """The best match of every head for one class (by its index) and width of windows, in the order of the heads.

    Raises:
        InputError: the set has no sequence of this class, the model no such window, or its letters are not DNA's.
    """
    every = found.every_head(label, width)
    best: Iterable[tuple[MotifMatch, float]] = best_matches(known, [motif.frequencies for motif, _ in every.values()])
    return [
        HeadMatch(found.classes[label], width, site, head, motif, enrichment_q, match, q_value)
        for ((site, head), (motif, enrichment_q)), (match, q_value) in zip(every.items(), best, strict=True)
    ]
