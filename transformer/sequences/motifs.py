"""Motifs over a set: what the windows have in common that a head attends to most, sequence after sequence.

Each sequence of a class gives its most attended window of one width. The windows are aligned, counted letter by
letter, and held against the other classes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from transformer.errors import InputError
from transformer.layers.kmers import Window

FLANK = 2
"""Letters on either side of a window that are shown with it."""

ROUNDS, SEEDS = 10, 12
"""Most rounds of shifting windows against each other, and how many windows each have a try as the first of them."""

FIXED = 0.9
"""So large a share of windows that start at one place makes it a fixed one."""

CLEAR_BITS = 0.8
"""A column that holds at least so much information counts as part of the motif's pattern."""


@dataclass(frozen=True)
class MotifSite:
    """The most attended window of one sequence: where it starts (from 0), and the letters around it."""

    sequence: int
    start: int
    letters: str


@dataclass(frozen=True)
class Enrichment:
    """How much more often the pattern stands at the chosen window in the class than in the other classes.

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
    """Letters of aligned windows: `counts[i, p]` windows have letter i at position p."""

    letters: str
    counts: Int[np.ndarray, "letter position"]
    sites: tuple[MotifSite, ...]
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

    @property
    def consensus(self) -> str:
        """The commonest letter at each position."""
        return "".join(self.letters[i] for i in self.counts.argmax(axis=0))

    def meme(self, name: str) -> str:
        """The motif in MEME's text format (version 4), for other tools; name without spaces."""
        rows = "\n".join(" ".join(f"{p:8.6f}" for p in column) for column in self.frequencies.T)
        background = " ".join(f"{letter} {1 / len(self.letters):.5f}" for letter in self.letters)
        return (
            "MEME version 4\n\n"
            f"ALPHABET= {self.letters}\n\n"
            f"Background letter frequencies\n{background}\n\n"
            f"MOTIF {name.replace(' ', '_')}\n"
            f"letter-probability matrix: alength= {len(self.letters)} w= {self.counts.shape[1]} "
            f"nsites= {len(self.sites)}\n{rows}\n"
        )


def information(counts: Int[np.ndarray, "letter position"]) -> Float[np.ndarray, " position"]:
    """Bits of each column of counts, with the small-sample correction; 0 for a column without letters."""
    from scipy.special import entr  # -p log p, 0 at 0; not at the top, where the start of every page would wait for it

    n_letters, total = counts.shape[0], counts.sum(axis=0)
    entropy = entr(counts / total.clip(min=1)).sum(axis=0) / math.log(2)
    correction = (n_letters - 1) / (2 * math.log(2) * total.clip(min=1))
    return np.where(total > 0, (math.log2(n_letters) - entropy - correction).clip(min=0), 0.0)


def top_site(
    values: Float[np.ndarray, " window"], spans: Sequence[Window], text: str, sequence: int, width: int
) -> MotifSite:
    """The window of `width` letters with the largest value, which is the attention it receives (the first of equals).

    Raises:
        InputError: the model has no windows of this width.
    """
    chosen = [i for i, span in enumerate(spans) if span.width == width]
    if not chosen:
        raise InputError("no_such_window", width=width, widths=str(sorted({s.width for s in spans})))
    start = spans[max(chosen, key=lambda i: values[i])].start
    return MotifSite(sequence, start, _around(text, start, width))


def motif(
    sites: Sequence[MotifSite], others: Iterable[MotifSite], texts: Sequence[str], width: int, letters: str
) -> Motif:
    """The motif of one class's `sites`, tested against the `others`; `texts[site.sequence]` is a site's sequence.

    Raises:
        InputError: there is no site.
    """
    if not sites:
        raise InputError("set_lacks_class")
    others = list(others)
    aligned = _aligned(sites, texts, width, letters)
    counts = _tally(np.array([[letters.find(letter) for letter in site.letters] for site in aligned]), len(letters))
    enrichment = _enrichment(counts, sites, others, texts, width, letters)
    return Motif(letters, counts, tuple(aligned), enrichment, _place(sites, others))


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


def _place(sites: Sequence[MotifSite], others: Sequence[MotifSite]) -> Place:
    starts, elsewhere = [site.start for site in sites], [site.start for site in others]
    start = max(sorted(set(starts)), key=starts.count)
    return Place(start, starts.count(start) / len(starts), elsewhere.count(start) / max(1, len(elsewhere)))


def _aligned(sites: Sequence[MotifSite], texts: Sequence[str], width: int, letters: str) -> list[MotifSite]:
    """Shift each window by up to `FLANK` letters to where it fits the others best, until nothing moves.

    What it settles at depends on where it starts: from the windows as they were found, and from the letters of each of
    the first `SEEDS` of them; the start that leads to most information is taken.
    """
    shifts = sorted(range(-FLANK, FLANK + 1), key=abs)  # of equals, the smallest shift is taken
    codes = np.array(
        [
            [[letters.find(c) for c in _around(texts[site.sequence], site.start + shift, width)] for shift in shifts]
            for site in sites
        ]
    )
    inside = np.array([[0 <= s.start + shift <= len(texts[s.sequence]) - width for shift in shifts] for s in sites])
    starts = [codes[:, 0], *(codes[i : i + 1, 0] for i in range(min(SEEDS, len(sites))))]
    choices = [_settled(codes, inside, start, len(letters)) for start in starts]
    each = np.arange(len(sites))
    best = max(choices, key=lambda choice: information(_tally(codes[each, choice], len(letters))).sum())
    moved = [site.start + shifts[choice] for site, choice in zip(sites, best, strict=True)]
    return [
        MotifSite(site.sequence, start, _around(texts[site.sequence], start, width))
        for site, start in zip(sites, moved, strict=True)
    ]


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
    """How often each letter stands at each position; unknown letters do not count."""
    return (codes == np.arange(n_letters)[:, None, None]).sum(axis=1)


def _around(text: str, start: int, width: int) -> str:
    """The window with its flanks; a dash stands where the sequence has ended."""
    return "".join(text[i] if 0 <= i < len(text) else "-" for i in range(start - FLANK, start + width + FLANK))


def _enrichment(
    counts: Int[np.ndarray, "letter position"],
    sites: Sequence[MotifSite],
    others: Sequence[MotifSite],
    texts: Sequence[str],
    width: int,
    letters: str,
) -> Enrichment:
    clear = information(counts) >= CLEAR_BITS
    pattern = "".join(letters[i] if c else "." for i, c in zip(counts.argmax(axis=0), clear, strict=True))

    def has(site: MotifSite) -> bool:
        """Whether the pattern stands at the window as it was found, or up to `FLANK` letters beside it.

        Alignment had that freedom as well; windows of the other classes, which nobody aligned, have the same.
        """
        text = texts[site.sequence]
        starts = range(max(0, site.start - FLANK), min(len(text) - width, site.start + FLANK) + 1)
        return any(
            all(p in (".", letter) for p, letter in zip(pattern, _around(text, start, width), strict=True))
            for start in starts
        )

    found, others_found = sum(map(has, sites)), sum(map(has, others))
    p_value = fisher(found, len(sites), others_found, len(others)) if others and clear.any() else 1.0
    return Enrichment(pattern, found, len(sites), others_found, len(others), p_value)
