"""A motif held against known ones: which is most like it, where, on which strand, and how often chance does as well.

Columns are compared by their Euclidean distance, and the columns that overlap are summed. Its chance is counted as
Tomtom counts it (Gupta et al. 2007, "Quantifying similarity between motifs"): by dynamic programming over scores in
whole numbers, for columns that are drawn at random and independently, then for the best of all offsets. Two things
differ from Tomtom: columns are drawn from the reader's motifs with their letters in every order, so that a file of one
motif has a null too and a file's composition does not matter; and both strands are counted among the offsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from jaxtyping import Float, Int

from transformer.errors import InputError
from transformer.sequences.motif_files import LETTERS, KnownMotif
from transformer.sequences.motifs import q_values

LEVELS = 100
"""Steps from the largest distance of two columns to none, in which scores are counted."""

FEWEST = 5
"""Columns that overlap at least, or all of the narrower motif's."""

NULL_COLUMNS = 2_000
"""Most columns that stand for all others when chance is counted: of a larger file, so many evenly spaced ones."""

_FARTHEST = float(np.sqrt(2))


@dataclass(frozen=True, eq=False)
class MotifMatch:
    """A known motif, laid beside the motif that was asked about where it is most like it.

    Column 0 of `known`, as `strand` reads it, lies at column `offset` of the motif; `overlap` columns lie on each
    other, `distance` apart on average (Euclidean, from 0 to 1.41). `p_value` is the chance that random columns do as
    well at any offset on any strand; `e_value` is how many of all known motifs would.
    """

    known: KnownMotif
    offset: int
    strand: str
    overlap: int
    distance: float
    p_value: float
    e_value: float

    @property
    def frequencies(self) -> Float[np.ndarray, "letter column"]:
        """Those of the known motif, as they are laid beside the other."""
        return self.known.frequencies if self.strand == "+" else self.known.frequencies[::-1, ::-1]


class KnownMotifs:
    """The motifs of a file, ready to be compared with.

    Raises:
        InputError: there is none.
    """

    def __init__(self, motifs: Sequence[KnownMotif]) -> None:
        if not motifs:
            raise InputError("known_none")
        self.motifs = tuple(motifs)
        columns = np.concatenate([one.frequencies for one in motifs], axis=1)
        chosen = columns[:, np.linspace(0, columns.shape[1] - 1, min(columns.shape[1], NULL_COLUMNS)).astype(int)]
        self._null = np.concatenate([chosen[list(order)] for order in permutations(range(len(LETTERS)))], axis=1)

    def matches(self, frequencies: Float[np.ndarray, "letter position"]) -> list[MotifMatch]:
        """Every known motif where it is most like this one, the least likely by chance first.

        Raises:
            InputError: its letters are not those of DNA.
        """
        if len(frequencies) != len(LETTERS):
            raise InputError("known_letters", letters=len(frequencies))
        chances = _Chances(scores(frequencies, self._null))
        found = [_laid(one, frequencies, chances, len(self.motifs)) for one in self.motifs]
        return sorted(found, key=lambda match: (match.p_value, match.distance))


def best_matches(
    known: KnownMotifs, motifs: Sequence[Float[np.ndarray, "letter position"]]
) -> list[tuple[MotifMatch, float]]:
    """For each motif its best match, and the q-value of that over these motifs (Benjamini and Hochberg 1995).

    What goes into the q-values is the chance that any of the known motifs does as well: 1 - (1 - p)^n.
    """
    best = [known.matches(one)[0] for one in motifs]
    return list(zip(best, q_values([any_of(one.p_value, len(known.motifs)) for one in best]), strict=True))


def any_of(p_value: float, tries: int) -> float:
    """The chance that at least one of so many independent tries succeeds."""
    return float(-np.expm1(tries * np.log1p(-min(p_value, 1 - 1e-16))))


def scores(
    one: Float[np.ndarray, "letter column"], other: Float[np.ndarray, "letter target"]
) -> Int[np.ndarray, "column target"]:
    """How alike each column of one is to each of the other: from 0, no letter in common, to `LEVELS`, the same."""
    return np.rint(LEVELS * (1 - distances(one, other) / _FARTHEST)).astype(int)


def distances(
    one: Float[np.ndarray, "letter column"], other: Float[np.ndarray, "letter target"]
) -> Float[np.ndarray, "column target"]:
    """Euclidean distances of columns."""
    products = one.T @ other
    squares = (one**2).sum(axis=0)[:, None] + (other**2).sum(axis=0) - 2 * products
    return np.sqrt(squares.clip(min=0))


class _Chances:
    """How often columns drawn at random reach a sum of scores, for every run of a motif's columns."""

    def __init__(self, null: Int[np.ndarray, "column draw"]) -> None:
        width = len(null)
        each = [np.bincount(row, minlength=LEVELS + 1) / null.shape[1] for row in null]
        self._tails = np.zeros((width, width + 1, LEVELS * width + 1))
        for first in range(width):
            chance = np.ones(1)
            for after in range(first + 1, width + 1):
                chance = np.convolve(chance, each[after - 1])
                self._tails[first, after, : len(chance)] = chance[::-1].cumsum()[::-1].clip(max=1)

    def of(
        self, first: Int[np.ndarray, " run"], after: Int[np.ndarray, " run"], score: Int[np.ndarray, " run"]
    ) -> Float[np.ndarray, " run"]:
        """The chances of at least these sums over columns `first` to `after`."""
        return self._tails[first, after, score]


def _laid(
    known: KnownMotif, frequencies: Float[np.ndarray, "letter position"], chances: _Chances, n_known: int
) -> MotifMatch:
    """A known motif at its best offset and strand."""
    width, columns = frequencies.shape[1], known.frequencies.shape[1]
    fewest = min(FEWEST, width, columns)
    offsets = np.arange(fewest - columns, width - fewest + 1)
    first, after = offsets.clip(min=0), (offsets + columns).clip(max=width)
    overlap = after - first
    found = []
    for strand, turned in (("+", known.frequencies), ("-", known.frequencies[::-1, ::-1])):
        reached = chances.of(first, after, _along(scores(frequencies, turned), offsets).astype(int))
        apart = _along(distances(frequencies, turned), offsets) / overlap
        i = np.lexsort((apart, reached))[0]
        found.append((float(reached[i]), float(apart[i]), int(offsets[i]), strand, int(overlap[i])))
    chance, distance, offset, strand, shared = min(found)
    p_value = any_of(chance, 2 * len(offsets))
    return MotifMatch(known, offset, strand, shared, distance, p_value, p_value * n_known)


def _along(
    values: Float[np.ndarray, "position column"] | Int[np.ndarray, "position column"],
    offsets: Int[np.ndarray, " offset"],
) -> Float[np.ndarray, " offset"]:
    """Sums over the cells in which a motif's position lies on a column of the other, at each offset."""
    width, columns = values.shape
    shift = np.arange(width)[:, None] - np.arange(columns) + columns - 1
    return np.bincount(shift.ravel(), weights=values.ravel())[offsets + columns - 1]
