"""Motifs over a set: what the windows have in common that a head attends to most, sequence after sequence.

The windows of one class are aligned, counted letter by letter, and held against those of the other classes. A window
is a sequence and the letter (from 0) at which it starts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from transformer.errors import InputError

FLANK = 2
"""Letters on either side of a window that are shown with it."""

ROUNDS, SEEDS = 10, 12
"""Most rounds of shifting windows against each other, and how many windows each have a try as the first of them."""

FIXED = 0.9
"""So large a share of windows that start at one place makes it a fixed one."""

CLEAR_BITS = 0.8
"""A column that holds at least so much information counts as part of the motif's pattern."""

SHIFTS = np.array(sorted(range(-FLANK, FLANK + 1), key=abs))
"""How far a window may be shifted; of equally good shifts the smallest is taken."""

Site = tuple[str, int]
"""A sequence, and where in it a window starts."""


@dataclass(frozen=True)
class Enrichment:
    """How much more often the pattern is at the chosen window in the class than in the other classes.

    `pattern` has a letter where the motif is clear and `.` elsewhere. `p_value` is Fisher's exact test, one-sided; no
    correction is made for having read the pattern off the same windows, nor for the heads (as `q_values` does) and
    widths one may try.
    """

    pattern: str
    found: int
    total: int
    others_found: int
    others_total: int
    p_value: float


@dataclass(frozen=True)
class Place:
    """Where most windows of the class start as they were found (from 0), the share that does, and that of the others.

    Where nearly all start at one place, the logo is the data's own composition there, whatever the head looks for.
    """

    start: int
    share: float
    others_share: float

    @property
    def is_fixed(self) -> bool:
        """Whether (nearly) all windows of the class start there."""
        return self.share >= FIXED


@dataclass(frozen=True, eq=False)
class Motif:
    """Letters of aligned windows, which begin at `starts`: `counts[i, p]` of them have letter i at position p."""

    letters: str
    counts: Int[np.ndarray, "letter position"]
    starts: Int[np.ndarray, " window"]
    enrichment: Enrichment
    place: Place

    @property
    def frequencies(self) -> Float[np.ndarray, "letter position"]:
        """Share of each letter among the known ones at each position; sums to 1, or is even where none is known."""
        total = self.counts.sum(axis=0)
        return np.where(total > 0, self.counts / total.clip(min=1), 1 / len(self.letters))

    @property
    def information(self) -> Float[np.ndarray, " position"]:
        """Bits at each position: how far from even its letters are, less what few sequences would show by chance.

        Source: Schneider et al. 1986 (the small-sample correction (s - 1) / (2 n ln 2)); never below 0.
        """
        return information(self.counts)

    @property
    def heights(self) -> Float[np.ndarray, "letter position"]:
        """The logo: each letter's share of its position's information, in bits. Source: Schneider and Stephens 1990."""
        return self.frequencies * self.information

    def meme(self, name: str) -> str:
        """The motif in MEME's text format (version 4), for other tools; name without spaces."""
        rows = "\n".join(" ".join(f"{p:8.6f}" for p in column) for column in self.frequencies.T)
        background = " ".join(f"{letter} {1 / len(self.letters):.5f}" for letter in self.letters)
        return (
            f"MEME version 4\n\nALPHABET= {self.letters}\n\nBackground letter frequencies\n{background}\n\n"
            f"MOTIF {name.replace(' ', '_')}\n"
            f"letter-probability matrix: alength= {len(self.letters)} w= {self.counts.shape[1]} "
            f"nsites= {len(self.starts)}\n{rows}\n"
        )


def information(counts: Int[np.ndarray, "letter position"]) -> Float[np.ndarray, " position"]:
    """Bits of each column of counts, with the small-sample correction; 0 for a column without letters."""
    from scipy.special import entr  # -p log p, 0 at 0; not at the top, where the start of every page would wait for it

    n_letters, total = counts.shape[0], counts.sum(axis=0)
    entropy = entr(counts / total.clip(min=1)).sum(axis=0) / math.log(2)
    correction = (n_letters - 1) / (2 * math.log(2) * total.clip(min=1))
    return np.where(total > 0, (math.log2(n_letters) - entropy - correction).clip(min=0), 0.0)


def motif(sites: Sequence[Site], others: Sequence[Site], width: int, letters: str) -> Motif:
    """The motif of one class's windows of `width`, tested against those of the other classes.

    Raises:
        InputError: there is no window.
    """
    if not sites:
        raise InputError("set_lacks_class")
    codes, inside = _codes(sites, width, letters)
    shift = _aligned(codes, inside, len(letters))
    counts = _tally(codes[np.arange(len(sites)), shift], len(letters))
    clear = information(counts) >= CLEAR_BITS
    wanted = np.where(clear, counts.argmax(axis=0), -1)
    found, others_found = _count(codes, inside, wanted), 0
    if others:
        others_found = _count(*_codes(others, width, letters), wanted)
    p_value = fisher(found, len(sites), others_found, len(others)) if others and clear.any() else 1.0
    pattern = "".join(letters[i] if i >= 0 else "." for i in wanted)
    starts, elsewhere = [start for _, start in sites], [start for _, start in others]
    start = max(sorted(set(starts)), key=starts.count)
    place = Place(start, starts.count(start) / len(starts), elsewhere.count(start) / max(1, len(elsewhere)))
    enrichment = Enrichment(pattern, found, len(sites), others_found, len(others), p_value)
    return Motif(letters, counts, np.array(starts) + SHIFTS[shift], enrichment, place)


def fisher(found: int, total: int, others_found: int, others_total: int) -> float:
    """Probability of so many or more among `total`, if all that were found fell at random (one-sided exact test)."""
    from scipy.stats import fisher_exact  # not at the top, where the start of every page would wait for it

    table = [[found, total - found], [others_found, others_total - others_found]]
    return float(fisher_exact(table, alternative="greater").pvalue)


def q_values(p_values: Sequence[float]) -> list[float]:
    """For each test the least share of false finds among all that are at least as strong, if they count as finds.

    Source: Benjamini and Hochberg 1995.
    """
    from scipy.stats import false_discovery_control  # not at the top, where the start of every page would wait for it

    return [float(q) for q in false_discovery_control(p_values, method="bh")]


def _codes(
    sites: Sequence[Site], width: int, letters: str
) -> tuple[Int[np.ndarray, "site shift position"], Bool[np.ndarray, "site shift"]]:
    """The letters (-1: unknown, or outside) of each window with its flanks, at each shift, and which shifts fit."""
    codes, inside, edge = [], [], "-" * (2 * FLANK)
    for text, start in sites:
        padded, first = f"{edge}{text}{edge}", start + FLANK + SHIFTS
        codes.append([[letters.find(one) for one in padded[at : at + width + 2 * FLANK]] for at in first.tolist()])
        inside.append((start + SHIFTS >= 0) & (start + SHIFTS <= len(text) - width))
    return np.array(codes), np.array(inside)


def _aligned(
    codes: Int[np.ndarray, "site shift position"], inside: Bool[np.ndarray, "site shift"], n_letters: int
) -> Int[np.ndarray, " site"]:
    """Which shift fits each window best to the others, when nothing moves any more.

    What it settles at depends on where it starts: from the windows as they were found, and from the letters of each of
    the first `SEEDS` of them; the start that leads to most information is taken.
    """
    each = np.arange(len(codes))
    starts = [codes[:, 0], *(codes[i : i + 1, 0] for i in range(min(SEEDS, len(codes))))]
    choices = [_settled(codes, inside, start, n_letters) for start in starts]
    return max(choices, key=lambda choice: information(_tally(codes[each, choice], n_letters)).sum())


def _settled(
    codes: Int[np.ndarray, "site shift position"],
    inside: Bool[np.ndarray, "site shift"],
    start: Int[np.ndarray, "row position"],
    n_letters: int,
) -> Int[np.ndarray, " site"]:
    """Which shift each window ends at, when all begin by fitting the rows of `start`."""
    counts, choice = _tally(start, n_letters), np.full(len(codes), -1)
    for _ in range(ROUNDS):
        likely = (counts + 0.5) / (counts + 0.5).sum(axis=0)
        score = np.vstack([np.log2(likely * n_letters), np.zeros(likely.shape[1])])  # an unknown letter, -1, has 0
        fit = score[codes, np.arange(codes.shape[2])].sum(axis=2)
        before, choice = choice, np.where(inside, fit, -np.inf).argmax(axis=1)
        if (choice == before).all():
            break
        counts = _tally(codes[np.arange(len(codes)), choice], n_letters)
    return choice


def _tally(codes: Int[np.ndarray, "row position"], n_letters: int) -> Int[np.ndarray, "letter position"]:
    """How often each letter is at each position; unknown letters do not count."""
    return (codes == np.arange(n_letters)[:, None, None]).sum(axis=1)


def _count(
    codes: Int[np.ndarray, "site shift position"],
    inside: Bool[np.ndarray, "site shift"],
    wanted: Int[np.ndarray, " position"],
) -> int:
    """Windows that have the letters that are wanted (-1: any) at some shift: alignment had that freedom as well."""
    fits = ((codes == wanted) | (wanted < 0)).all(axis=2)
    return int((fits & inside).any(axis=1).sum())
