"""Sums that can be added up in parts: what a chunk of a corpus leaves behind, and how two of them become one.

Each measure keeps, for each head, the count and the sum over all that was counted (integers, and float64), and over
sentences the number, the mean and the sum of squared deviations of their own means. The latter are merged as in Chan,
Golub and LeVeque 1979, so no large squares are subtracted. Merged in the order of the chunks, the result does not
depend on who computed which.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from transformer.atlas.looks import Looked, Tally, drawn
from transformer.attention.measures import Totals

Key = tuple[str, str]
"""A kind of attention and a measure."""


@dataclass(frozen=True, eq=False)
class Moments:
    """A measure of every head of a kind (the last one is even attention), over what was seen so far.

    `rows` and `total` count and sum everything; `sentences`, `mean` and `squares` are those of the sentences' means.
    """

    rows: Int[np.ndarray, "head width"]
    total: Float[np.ndarray, "head width"]
    sentences: Int[np.ndarray, "head width"]
    mean: Float[np.ndarray, "head width"]
    squares: Float[np.ndarray, "head width"]

    @classmethod
    def of(cls, found: Totals) -> "Moments":
        """The moments of some sentences."""
        total = found.total
        count = np.broadcast_to(found.counted, total.shape)
        there = count > 0
        each = total / np.maximum(found.counted, 1)  # 0 where nothing was counted
        sentences = there.sum(axis=0)
        mean = each.sum(axis=0) / np.maximum(sentences, 1)
        squares = (np.square(each - mean) * there).sum(axis=0)
        return cls(count.sum(axis=0), total.sum(axis=0), sentences, mean, squares)

    def merged(self, later: "Moments") -> "Moments":
        """The moments of both parts together."""
        n = self.sentences + later.sentences
        share = later.sentences / np.maximum(n, 1)
        apart = later.mean - self.mean
        return Moments(
            self.rows + later.rows,
            self.total + later.total,
            n,
            self.mean + apart * share,
            self.squares + later.squares + np.square(apart) * self.sentences * share,
        )

    @property
    def value(self) -> Float[np.ndarray, "head width"]:
        """The mean over everything, every row alike; NaN where nothing was counted."""
        return np.divide(self.total, self.rows, where=self.rows > 0, out=np.full_like(self.total, np.nan))

    @property
    def spread(self) -> Float[np.ndarray, "head width"]:
        """The standard deviation between the means of sentences; NaN for fewer than two sentences."""
        n = self.sentences
        variance = np.divide(self.squares, n - 1, where=n > 1, out=np.full_like(self.total, np.nan))
        return np.sqrt(variance)


@dataclass(frozen=True)
class Example:
    """A sentence that shows a head: how high its score is, and which line of the text it is (from 0)."""

    score: float
    line: int
    source: str
    target: str

    @property
    def order(self) -> tuple[float, int]:
        """The best first; of equals, the one that comes first in the text."""
        return -self.score, self.line


@dataclass(eq=False)
class Accumulator:
    """All that a pass keeps of what it has read: moments by kind and measure, examples, and the lines left out.

    `sites` names the heads of each kind. `examples` is by kind, measure and head; its lists are sorted. `skipped` are
    the lines that could not be read, each with the code of the reason and its sentence. `tallies` count what rows look
    at (see `looks`), `looked` is by line.
    """

    sites: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    moments: dict[Key, Moments] = field(default_factory=dict)
    tallies: dict[Key, Tally] = field(default_factory=dict)
    looked: dict[int, Looked] = field(default_factory=dict)
    examples: dict[tuple[str, str, int], tuple[Example, ...]] = field(default_factory=dict)
    skipped: tuple[tuple[int, str, str], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def add(self, later: "Accumulator", keep: int) -> None:
        """Take in a part that comes after all that is here; `keep` examples of each list stay."""
        self.sites |= later.sites
        for key, moments in later.moments.items():
            self.moments[key] = self.moments[key].merged(moments) if key in self.moments else moments
        for key, tally in later.tallies.items():
            self.tallies[key] = self.tallies[key] + tally if key in self.tallies else tally
        self.looked |= later.looked
        self.looked = {line: self.looked[line] for line in drawn(list(self.looked))}
        for place, examples in later.examples.items():
            both = sorted((*self.examples.get(place, ()), *examples), key=lambda example: example.order)
            self.examples[place] = tuple(both[:keep])
        self.skipped += later.skipped
        self.counts = {name: self.counts.get(name, 0) + n for name, n in later.counts.items()} | {
            name: n for name, n in self.counts.items() if name not in later.counts
        }
