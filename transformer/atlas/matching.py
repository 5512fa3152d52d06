"""Heads of two models: how far each is from each while both read the same sentences, and which belong together.

The distance of two heads is that of one model's heads (`statistics.divergences`): the root of the mean Jensen-Shannon
divergence of their rows, over queries with a choice. Heads are paired so that the sum of the distances of pairs is
least (Kuhn 1955). What pairing by chance would give is no estimate: a random pair is any allowed pair alike, so it is
the mean of the allowed distances.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from transformer.atlas.adapters import Counts, Reading, TranslatorSubject
from transformer.atlas.maps import Maps
from transformer.atlas.statistics import TINY
from transformer.atlas.summarise import batches
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.sites import Site

Head = tuple[Site, int]
"""A head: its site and its number, from 0."""


@dataclass(frozen=True, eq=False)
class Distances:
    """The heads of one kind in two models, and how far apart they are (0 to 0.83, the root of ln 2)."""

    first: tuple[Head, ...]
    second: tuple[Head, ...]
    values: Float[np.ndarray, "first second"]

    @property
    def same_layers(self) -> bool:
        """Whether both models have the same layers, so that heads can be paired within them."""
        return {site for site, _ in self.first} == {site for site, _ in self.second}

    def allowed(self, within: bool) -> Bool[np.ndarray, "first second"]:
        """Which pairs may be made: all, or those `within` a layer."""
        if not within:
            return np.ones(self.values.shape, dtype=bool)
        return np.array([[one[0] == other[0] for other in self.second] for one in self.first])

    def pairs(self, within: bool = False) -> list[tuple[int, int]]:
        """The pairs of least total distance, in the order of the first model's heads; the smaller model has no rest."""
        from scipy.optimize import linear_sum_assignment  # late: it would hold up the start of every page

        far = self.values.sum() + 1  # more than any sum of allowed distances
        rows, columns = linear_sum_assignment(np.where(self.allowed(within), self.values, far))
        found = zip(rows.tolist(), columns.tolist(), strict=True)
        return [(i, j) for i, j in found if self.allowed(within)[i, j]]

    def by_chance(self, within: bool = False) -> float:
        """The mean distance of heads that are paired at random."""
        return float(self.values[self.allowed(within)].mean())


def distances(first: Checkpoint, second: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[str, Distances]:
    """How far apart the heads of two translators are, by kind, while both read the same sentences and references.

    Raises:
        CheckpointError: one of them does not translate, or they cut a sentence into different tokens.
        InputError: a sentence is too long for one of them, or there is none.
    """
    if not pairs:
        raise InputError("atlas_match_nothing")
    subjects = [_subject(checkpoint) for checkpoint in (first, second)]
    readings = [_readings(subject, pairs) for subject in subjects]
    for (source, target), one, other in zip(pairs, *readings, strict=True):
        if _tokens(subjects[0], one) != _tokens(subjects[1], other):
            raise CheckpointError("atlas_match_tokens", first=first.name, second=second.name, text=source or target)
    totals: dict[str, tuple[Maps, Maps, Tensor, int]] = {}
    with torch.inference_mode():
        for batch in batches(readings[0], mixed=all(subject.mixed for subject in subjects)):
            others = [readings[1][reading.number] for reading in batch]
            seen = [{one.maps.group: one.maps for one in subject.run(part)}
                    for subject, part in zip(subjects, (batch, others), strict=True)]  # fmt: skip
            for group in seen[0].keys() & seen[1].keys():
                total, count = _between(seen[0][group], seen[1][group])
                if group in totals:
                    total, count = total + totals[group][2], count + totals[group][3]
                totals[group] = seen[0][group], seen[1][group], total, count
    return {
        group: Distances(_heads(totals[group][0]), _heads(totals[group][1]), _root(*totals[group][2:]))
        for group in sorted(totals, key=("encoder.self", "decoder.self", "decoder.cross").index)
    }


def _subject(checkpoint: Checkpoint) -> TranslatorSubject:
    if not checkpoint.translates:
        raise CheckpointError("atlas_match_translators", name=checkpoint.name)
    return TranslatorSubject(checkpoint, Counts())


def _readings(subject: TranslatorSubject, pairs: Sequence[tuple[str, str]]) -> list[Reading]:
    return [subject.read(i, source, target) for i, (source, target) in enumerate(pairs)]


def _tokens(subject: TranslatorSubject, reading: Reading) -> tuple[list[str], list[str]]:
    source, target = subject.reader.tokenizer, subject.writer.tokenizer
    return list(source.labels(reading.source)), list(target.labels(reading.target))


def _between(first: Maps, second: Maps) -> tuple[Float[Tensor, "first second"], int]:
    """The sum over rows of the divergence of each pair of heads, and the number of rows.

    A key that only one of them has, past the end of a source, has no weight in the other.
    """
    rows = first.choosing & second.choosing
    width = max(first.weights.shape[-1], second.weights.shape[-1])
    one, other = (
        F.pad(maps.weights[:, :-1], (0, width - maps.weights.shape[-1])).transpose(1, 2)[rows].transpose(0, 1) + TINY
        for maps in (first, second)
    )  # (head, row, key)
    alone = [(part.log() * part).sum(-1).double().sum(-1) for part in (one, other)]
    both = torch.stack([((head + other).log() * (head + other)).sum(-1).double().sum(-1) for head in one])
    n_rows = int(rows.sum())
    return (alone[0][:, None] + alone[1] - both) / 2 + np.log(2) * n_rows, n_rows


def _root(total: Tensor, n_rows: int) -> Float[np.ndarray, "first second"]:
    found: np.ndarray = (total / max(1, n_rows)).clamp(min=0).sqrt().numpy()
    return found


def _heads(maps: Maps) -> tuple[Head, ...]:
    return tuple((site, head) for site, n_heads in maps.sites for head in range(n_heads))
