"""Trust in an attribution: by hand, one run for each word set, and rank correlations as SciPy counts them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE
from transformer.explain.attribution.contributions import contributions
from transformer.explain.attribution.scored_sequence import ScoredSequence
from transformer.explain.attribution.trust import PERCENTS, counted, trust
from transformer.plots.axes import Axis

WORDS = ([0], [1, 2], [3], [4], [5])
"""Source positions of each word; the last position is the end token."""


@pytest.fixture(scope="module")
def sequence() -> ScoredSequence:
    """Words of one and of two pieces, on both sides."""
    pieces = ["▁a", "▁b", "c", "▁d", "▁e", "▁f", "</s>"]
    source = Axis.of_pieces("source", pieces, [False] * 6 + [True])
    written = Axis.of_pieces("written", ["▁A", "▁B", "C", "▁D", "</s>"], [False] * 4 + [True])
    return replace(reference.scored_sequence(reference.model("torch")), source=source, written=written)


def lost_by_hand(sequence: ScoredSequence, hidden: list[int]) -> list[float]:
    """What each written word loses without the source words `hidden`; the end token is no word."""
    whole = reference.log_probs_of(reference.run(sequence.model, SOURCE, READ))
    positions = [i for word in hidden for i in WORDS[word]]
    lost = whole - reference.log_probs_of(reference.run(sequence.model, SOURCE, READ, hidden=positions))
    return [lost[0], lost[1] + lost[2], lost[3]]


def test_words_are_taken_in_the_order_of_each_ranking(sequence: ScoredSequence) -> None:
    answer = contributions(sequence)
    score = answer.merged().of_source[:3, :5]
    single = np.array([lost_by_hand(sequence, [word]) for word in range(5)]).T
    found = trust(sequence, {"contributions": answer})
    for name, table in (("contributions", score), ("deletion", single), ("reversed", -single)):
        kept, alone = np.zeros(5), np.zeros(5)
        for row in range(3):
            order = sorted(range(5), key=lambda word: -table[row, word])
            for i, percent in enumerate(PERCENTS):
                count = max(1, round(percent * 5 / 100 + 1e-9))
                kept[i] += lost_by_hand(sequence, order[:count])[row]
                alone[i] += lost_by_hand(sequence, order[count:])[row]
        np.testing.assert_allclose(found[name].comprehensiveness, kept, atol=1e-9)
        np.testing.assert_allclose(found[name].sufficiency, alone, atol=1e-9)
        assert found[name].rows == 3
    expected = sum(stats.spearmanr(score[row], single[row]).statistic for row in range(3))
    assert found["contributions"].spearman == pytest.approx(expected, abs=1e-9)
    assert found["deletion"].spearman == pytest.approx(3.0, abs=1e-9)


def test_chance_is_the_mean_of_random_orders_and_stays_the_same(sequence: ScoredSequence) -> None:
    first, again = (trust(sequence, {})["random"] for _ in range(2))
    np.testing.assert_array_equal(first.comprehensiveness, again.comprehensiveness)
    every = [sum(lost_by_hand(sequence, [word])) for word in range(5)]
    assert min(every) <= first.comprehensiveness[0] <= max(every)
    assert (first.rows, first.correlated) == (3, 0)


def test_a_row_without_numbers_is_not_ranked(sequence: ScoredSequence) -> None:
    answer = contributions(sequence)
    values = answer.values.copy()
    values[0] = np.nan
    found = trust(sequence, {"contributions": replace(answer, values=values)})["contributions"]
    assert (found.rows, found.correlated) == (2, 2)


def test_a_source_of_one_word_has_figures_but_no_correlation() -> None:
    given = reference.scored_sequence(reference.model("torch"), source=(7, 2), read=(1,), written=(9,))
    found = trust(given, {})
    assert np.isfinite(found["deletion"].comprehensiveness).all()
    assert found["deletion"].correlated == 0


@pytest.mark.parametrize(("percent", "n", "count"), [(10, 3, 1), (50, 5, 3), (50, 4, 2), (30, 11, 3), (50, 1, 1)])
def test_at_least_one_word_is_taken_and_halves_are_rounded_up(percent: int, n: int, count: int) -> None:
    assert counted(percent, n) == count
