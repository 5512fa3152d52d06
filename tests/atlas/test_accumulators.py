"""Sums that are added up in parts are the sums of the whole."""

import numpy as np
import pytest

from transformer.atlas.accumulators import Accumulator, Example, Moments
from transformer.atlas.statistics import Totals


def some(n_sentences: int, seed: int) -> Totals:
    """Totals of sentences of different lengths; a few count nothing."""
    chance = np.random.default_rng(seed)
    counted = chance.integers(0, 9, (n_sentences, 1, 2))
    return Totals(chance.normal(1e6, 1, (n_sentences, 3, 2)) * counted, counted)


def test_parts_add_up_to_the_moments_of_numpy() -> None:
    """Values a million times their spread, where the difference of squares would keep nothing of it."""
    parts = [some(n, n) for n in (5, 1, 13, 2)]
    whole = Moments.of(parts[0])
    for part in parts[1:]:
        whole = whole.merged(Moments.of(part))
    total, counted = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    counted = np.broadcast_to(counted, total.shape)
    for head in range(3):
        for column in range(2):
            there = counted[:, head, column] > 0
            means = total[there, head, column] / counted[there, head, column]
            assert whole.rows[head, column] == counted[:, head, column].sum()
            assert whole.value[head, column] == pytest.approx(
                total[:, head, column].sum() / counted[:, head, column].sum()
            )
            assert whole.mean[head, column] == pytest.approx(means.mean(), rel=1e-12)
            assert whole.spread[head, column] == pytest.approx(means.std(ddof=1), rel=1e-6)


def test_what_was_never_counted_is_not_a_number_and_not_zero() -> None:
    nothing = Moments.of(Totals(np.zeros((4, 1, 1)), np.zeros((4, 1, 1), np.int64)))
    assert np.isnan(nothing.value).all()
    assert np.isnan(nothing.spread).all()
    one = Moments.of(Totals(np.full((1, 1, 1), 3.0), np.full((1, 1, 1), 2)))
    assert one.merged(nothing).value == nothing.merged(one).value == 1.5


def test_the_best_examples_stay_and_of_equals_the_first_lines() -> None:
    def part(*examples: tuple[float, int]) -> Accumulator:
        kept = tuple(Example(score, line, "", "") for score, line in examples)
        return Accumulator(examples={("encoder.self", "previous", 0): kept})

    found = Accumulator()
    for one in (part((0.9, 3), (0.5, 1)), part((0.9, 11), (0.7, 12)), part((0.7, 20), (0.2, 21))):
        found.add(one, 3)
    assert [example.line for example in found.examples["encoder.self", "previous", 0]] == [3, 11, 12]
