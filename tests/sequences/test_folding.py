"""Windows folded back to letters: nothing is lost, nothing is invented."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.attention.measures import rank_correlation
from transformer.attention.record import AttentionMap
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.nn.kmers import windows
from transformer.nn.masks import Mask
from transformer.plots.axes import Axis
from transformer.sequences.folding import folded
from transformer.sites import Site


def test_a_window_shares_evenly_among_its_letters():
    spans = windows(5, (2, 3))
    values = np.zeros(len(spans))
    values[1], values[4 + 2] = 0.5, 0.5  # letters 1-2 of width 2, letters 2-4 of width 3
    track = folded(values, spans, 5)
    assert track.widths == (2, 3)
    np.testing.assert_allclose(track.share, [[0, 0.25, 0.25, 0, 0], [0, 0, 1 / 6, 1 / 6, 1 / 6]])


@given(length=st.integers(7, 31), widths=st.sets(st.integers(1, 7), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_shares_sum_to_what_windows_received(length, widths, seed):
    spans = windows(length, tuple(widths))
    values = np.random.default_rng(seed).dirichlet(np.ones(len(spans)))
    track = folded(values, spans, length)
    assert track.total.sum() == pytest.approx(1)
    assert track.even.sum() == pytest.approx(1)
    for row, width in enumerate(track.widths):
        arrived = sum(value for value, span in zip(values, spans, strict=True) if span.width == width)
        assert track.share[row].sum() == pytest.approx(arrived)


def test_even_attention_favours_no_letter():
    spans = windows(23, (3, 5))
    track = folded(np.full(len(spans), 1 / len(spans)), spans, 23)
    np.testing.assert_allclose(track.relative, 1)


def test_received_is_the_mean_of_the_rows_also_over_several_groups(monkeypatch):
    monkeypatch.setattr("transformer.attention.record.ROWS_AT_ONCE", 5)
    source = AttentionInputs(torch.randn(1, 2, 13, 3), torch.randn(1, 2, 17, 3), Mask(), 1.0)
    queries, keys = (Axis.of_tokens(name, [str(i) for i in range(n)]) for name, n in (("query", 13), ("key", 17)))
    attention = AttentionMap(Site("encoder.0.self"), queries, keys, source)
    np.testing.assert_allclose(attention.received(1), attention.weights(1).mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "rho"),
    [([1, 2, 3], [10, 20, 90], 1), ([1, 2, 3], [3, 2, 1], -1), ([1, 1, 2, 3], [1, 2, 3, 4], 0.9486833)],
)
def test_rank_correlation(a, b, rho):
    assert rank_correlation(np.array(a, float), np.array(b, float)) == pytest.approx(rho)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=3, max_size=17))
def test_rank_correlation_is_pearsons_of_the_mean_ranks(pairs):
    ranks = []
    for values in zip(*pairs, strict=True):
        below = [sum(other < value for other in values) for value in values]
        equal = [sum(other == value for other in values) for value in values]
        ranks.append([low + (same + 1) / 2 for low, same in zip(below, equal, strict=True)])
    a, b = (np.array(values, float) for values in zip(*pairs, strict=True))
    found = rank_correlation(a, b)
    if len(set(ranks[0])) == 1 or len(set(ranks[1])) == 1:
        assert np.isnan(found)
    else:
        x, y = (np.array(rank) - np.mean(rank) for rank in ranks)
        assert found == pytest.approx((x @ y) / np.sqrt((x @ x) * (y @ y)), abs=1e-12)


def test_a_constant_has_no_rank_correlation():
    assert np.isnan(rank_correlation(np.ones(5), np.arange(5.0)))
    assert np.isnan(rank_correlation(np.arange(2.0), np.arange(2.0)))
