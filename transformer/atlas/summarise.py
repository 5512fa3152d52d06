"""What one chunk of a corpus adds up to, from its lines to its sums, and how the sums of two chunks become one.

A subject reads lines and measures batches of readings of like length. The sums of a chunk depend on nothing else: it
may be computed anywhere. Results are put back into the order of the lines before anything is added up.

Each measure keeps, for each head, the count and the sum over all that was counted (integers, and float64), and over
sentences the number, the mean and the sum of squared deviations of their own means. The latter are merged as in Chan,
Golub and LeVeque 1979, so no large squares are subtracted. Merged in the order of the chunks, the result does not
depend on who computed which.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from jaxtyping import Float, Int

from ..attention.measures import Totals
from ..errors import InputError
from ..runs.concurrency import let_others
from .corpus import Chunk, text_of
from .statistics import NEIGHBOURS, Looked, Tally, drawn, drawn_by, looked
from .subjects import Subject, TextSubject, TokenizedLine

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
        difference = later.mean - self.mean
        return Moments(
            self.rows + later.rows,
            self.total + later.total,
            n,
            self.mean + difference * share,
            self.squares + later.squares + np.square(difference) * self.sentences * share,
        )

    def column(self, place: int) -> "Moments":
        """One column by itself."""
        return Moments(*(getattr(self, one.name)[:, place : place + 1] for one in fields(self)))

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
class ExampleSentence:
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
    at (see `looks`), `looked` is by line and kind.
    """

    sites: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    moments: dict[Key, Moments] = field(default_factory=dict)
    tallies: dict[Key, Tally] = field(default_factory=dict)
    looked: dict[int, dict[str, Looked]] = field(default_factory=dict)
    examples: dict[tuple[str, str, int], tuple[ExampleSentence, ...]] = field(default_factory=dict)
    skipped: list[tuple[int, str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

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
        self.counts.update(later.counts)


SENTENCES_AT_ONCE = 64
"""Most sentences of a forward pass."""

CELLS_AT_ONCE = 2**15
"""Most cells (queries times keys) of one head in a forward pass, padding counted; one long sentence may have more."""

KEPT = 10
"""Sentences that are kept for each head and measure: those that show it best."""

ORDINARY, N_ORDINARY = "ordinary", 5
"""Sentences that are drawn by a hash of their line's number, whatever heads do there."""

SHOWING = ("previous", "same", "next", "start", "end", "punctuation", "number", "sibling", "confidence")
"""Measures that sentences may be examples of, by the mean over the sentence's rows; `offset` gives the first three."""


def sums_of(subject: Subject, chunk: Chunk) -> Accumulator:
    """The sums of one chunk, as a model that is loaded makes them."""
    found, readings = Accumulator(), list[TokenizedLine]()
    for i, line in enumerate(chunk.lines):
        try:
            target = None if chunk.targets is None else text_of(chunk.targets[i])
            readings.append(subject.read(chunk.first + i, text_of(line), target))
        except InputError as error:
            found.skipped.append((chunk.first + i, error.code, str(error)))
    fit = [one.number for one in readings if len(one.source) in subject.shown and drawn_by(one.number) <= chunk.drawn]
    keeping = set(drawn(fit) if chunk.shows and isinstance(subject, TextSubject) else ())  # windows have no words
    collected, done = defaultdict[Key, list[tuple[list[int], Totals]]](list), list[TokenizedLine]()
    with torch.inference_mode():
        for batch in batches(readings, subject.mixed):
            complete, every = subject.run(batch)
            done += complete
            numbers = [one.number for one in complete]
            for observed in every:
                let_others()
                group = observed.maps.group
                found.sites[group] = tuple((str(site), n_heads) for site, n_heads in observed.maps.sites)
                for measure, totals in observed.totals.items():
                    collected[group, measure].append((numbers, totals))
                for name, tally in observed.tallies.items():
                    found.tallies[group, name] = found.tallies.get((group, name), 0) + tally
                for place, one in enumerate(complete):
                    if one.number in keeping and len(one.target or one.source) in subject.shown:
                        here = Looked(subject.labels(one, group), *looked(observed.maps, place))
                        found.looked.setdefault(one.number, {})[group] = here
    done.sort(key=lambda one: one.number)
    everything = {}
    for key, parts in collected.items():  # some measures are of some batches alone
        order = np.argsort([number for numbers, _ in parts for number in numbers], kind="stable")
        sides = ([getattr(totals, side) for _, totals in parts] for side in ("total", "counted"))
        everything[key] = Totals(*(np.concatenate(side)[order] for side in sides))
    if chunk.shows:
        _show(found, everything, done, subject.shown)
    if not chunk.measured:
        found.tallies.clear()
        return found
    for key, totals in everything.items():
        let_others()
        found.moments[key] = Moments.of(totals)
    n_tokens = sum(len(one.source) + len(one.target) for one in done)
    found.counts.update(lines=len(chunk.lines), sentences=len(done), tokens=n_tokens)
    return found


def batches(readings: Sequence[TokenizedLine], mixed: bool) -> Iterator[list[TokenizedLine]]:
    """Readings of like size together (of one size, unless `mixed`), short ones first."""
    batch: list[TokenizedLine] = []
    longest = 0
    for reading in sorted(readings, key=lambda one: (*one.size[::-1], one.number)):
        longest = max(longest, *reading.size)
        if batch:
            full = len(batch) == SENTENCES_AT_ONCE or longest**2 * (len(batch) + 1) > CELLS_AT_ONCE
            if full or not (mixed or reading.size == batch[0].size):
                yield batch
                batch, longest = [], max(reading.size)
        batch.append(reading)
    if batch:
        yield batch


def _show(
    found: Accumulator, everything: Mapping[tuple[str, str], Totals], readings: Sequence[TokenizedLine], shown: range
) -> None:
    """Keep the sentences that show each head best by each measure, and some that are drawn without looking."""
    fit = [i for i, one in enumerate(readings) if all(size in shown for size in one.size if size)]
    for group, sites in found.sites.items():
        n_heads = sum(count for _, count in sites)
        for measure in SHOWING:
            name, column = ("offset", NEIGHBOURS[measure]) if measure in NEIGHBOURS else (measure, 0)
            if (group, name) not in everything:
                continue
            totals = everything[group, name]
            count = np.broadcast_to(totals.counted, totals.total.shape)[fit, :, column]
            each = np.where(count > 0, totals.total[fit, :, column] / np.maximum(count, 1), -np.inf)
            best = np.argsort(-each, axis=0, kind="stable")[:KEPT]
            for head in range(n_heads):
                scored = zip(each[best[:, head], head].tolist(), best[:, head].tolist(), strict=True)
                kept = tuple(_example(score, readings[fit[i]]) for score, i in scored if score > -np.inf)
                found.examples[group, measure, head] = kept
    drawn = sorted((_example(drawn_by(readings[i].number), readings[i]) for i in fit), key=lambda one: one.order)
    found.examples["", ORDINARY, 0] = tuple(drawn[:KEPT])


def _example(score: float, reading: TokenizedLine) -> ExampleSentence:
    return ExampleSentence(score, reading.number, *reading.texts)
