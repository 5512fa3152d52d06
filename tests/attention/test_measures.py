"""Measures of attention: exact on maps made by hand, and within their bounds on any."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.attention import measures
from transformer.attention.measures import HeadMeasures, StrongestHead
from transformer.attention.record import AttentionMap, Record
from transformer.attention.softmax_inputs import Weights
from transformer.errors import RecordError
from transformer.plots.axes import Axis
from transformer.sites import Site

ALL = np.ones((3, 3), dtype=bool)
PAST = np.tri(3, dtype=bool)
EVEN = np.full((3, 3), 1 / 3)
SAME = np.eye(3)
PREVIOUS = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])
EMPTY = np.array([[0.5, 0.5], [0.0, 0.0]])

maps = st.tuples(st.integers(1, 7), st.integers(1, 11), st.integers(0, 2**32 - 1)).map(
    lambda sizes: np.random.default_rng(sizes[2]).dirichlet(np.full(sizes[1], 0.3), size=sizes[0])
)


def attention(heads: list[np.ndarray], site: str = "encoder.0.self", special: tuple[int, ...] = ()) -> AttentionMap:
    """A map with these weights; `special` are the positions of keys that are marks."""
    n_queries, n_keys = heads[0].shape
    keys = Axis("key", tuple(map(str, range(n_keys))), tuple(range(n_keys)), tuple(i in special for i in range(n_keys)))
    return AttentionMap(
        Site(site), Axis.of_tokens("query", ["?"] * n_queries), keys, Weights(torch.tensor(np.array([heads])))
    )


def record(*attentions: AttentionMap) -> Record:
    return Record({attention.site: attention for attention in attentions})


@given(maps)
def test_entropy_is_the_sum_of_the_definition(weights: np.ndarray) -> None:
    expected = [sum(-p * math.log(p) for p in row if p > 0) for row in weights.tolist()]
    np.testing.assert_allclose(measures.entropy(weights), expected, rtol=0, atol=1e-12)


def test_an_empty_row_has_no_entropy_and_no_distance() -> None:
    assert np.isnan(measures.entropy(EMPTY)).tolist() == [False, True]
    assert np.isnan(measures.distance(EMPTY)).tolist() == [False, True]


def test_normalised_entropy_counts_visible_keys_only() -> None:
    causal = np.array([[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    entropies = measures.entropy(causal)
    assert np.isnan(measures.normalised_entropy(entropies, PAST)[0])
    assert measures.normalised_entropy(entropies, PAST)[1:] == pytest.approx([1, 1])
    assert measures.normalised_entropy(entropies, ALL)[1] == pytest.approx(math.log(2) / math.log(3))


def test_distance_in_tokens() -> None:
    assert measures.distance(SAME).tolist() == [0, 0, 0]
    assert measures.distance(PREVIOUS).tolist() == [0, 1, 1]
    assert measures.distance(np.array([[0, 0, 1.0], [0.5, 0, 0.5], [0.25, 0.25, 0.5]])) == pytest.approx([2, 1, 0.75])


def test_the_share_of_a_neighbour() -> None:
    assert measures.share_at(PREVIOUS, ALL, (-1, 0)).mean == pytest.approx([1, 1 / 3])
    next_of = measures.share_at(np.array([[0.1, 0.9], [0.3, 0.7]]), np.ones((2, 2), bool), (1,))
    assert next_of.mean == pytest.approx([0.9])
    assert np.isnan(measures.share_at(SAME, ALL, (3,)).mean).all()


def test_queries_without_a_choice_and_masked_neighbours_do_not_count() -> None:
    causal = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.1, 0.2, 0.7]])
    same, following = measures.share_at(causal, PAST, (0, 1)).mean
    assert same == pytest.approx((0.5 + 0.7) / 2)
    assert np.isnan(following)
    first = np.array([[True], [False], [False]])
    assert measures.share_on(causal, PAST, first).mean == pytest.approx([(0.5 + 0.1) / 2])
    assert measures.confidence(causal, PAST, np.array([True, True, False])).mean == pytest.approx([(0.5 + 0.2) / 2])


def test_confidence_is_the_mean_of_the_largest_weights_of_real_keys() -> None:
    weights = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]])
    visible = np.ones((2, 3), dtype=bool)
    assert measures.confidence(weights, visible, np.array([True, True, True])).mean == pytest.approx([0.6])
    assert measures.confidence(weights, visible, np.array([False, True, True])).mean == pytest.approx([0.35])
    assert np.isnan(measures.confidence(weights, visible, np.array([False] * 3)).mean).all()


def test_advance_is_one_for_reading_in_step_and_minus_one_for_reading_backwards() -> None:
    assert measures.advance(measures.centre(np.eye(4))) == pytest.approx(1)
    assert measures.advance(measures.centre(np.eye(4)[::-1])) == pytest.approx(-1)
    assert np.isnan(measures.advance(measures.centre(EVEN)))
    assert np.isnan(measures.advance(measures.centre(np.eye(2))))


def test_advance_leaves_out_queries_that_see_nothing() -> None:
    weights = np.insert(np.eye(4), 2, 0, axis=0)
    assert measures.advance(measures.centre(weights)) == pytest.approx(np.corrcoef([0, 1, 3, 4], [0, 1, 2, 3])[0, 1])


def test_maps_in_a_batch_measure_what_each_does_alone() -> None:
    """Two sentences of three heads each; in the second one the last query and the last two keys are padding."""
    visible = np.ones((2, 1, 5, 7), dtype=bool)
    visible[1, :, 4], visible[1, ..., 5:] = False, False
    scores = np.random.default_rng(3).normal(size=(2, 3, 5, 7))
    powers = np.exp(scores) * visible
    weights = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-9)
    marked = np.arange(7) % 3 == 0
    entropies, centres = measures.entropy(weights), measures.centre(weights)
    normalised = measures.normalised_entropy(entropies, visible)
    at = measures.share_at(weights, visible, (-2, 0, 6)).mean
    on = measures.share_on(weights, visible, marked[:, None]).mean
    sure = measures.confidence(weights, visible, marked).mean
    advances = measures.advance(centres)
    for sentence, head in np.ndindex(2, 3):
        n_queries, n_keys = (5, 7) if sentence == 0 else (4, 5)
        alone = weights[sentence, head, :n_queries, :n_keys]
        here = (sentence, head, slice(0, n_queries))
        assert entropies[here] == pytest.approx(measures.entropy(alone))
        assert normalised[here] == pytest.approx(measures.entropy(alone) / math.log(n_keys))
        assert centres[here] == pytest.approx(alone @ np.arange(n_keys))
        expected = [np.mean([alone[q, q + d] for q in range(n_queries) if 0 <= q + d < n_keys] or [np.nan])
                    for d in (-2, 0, 6)]  # fmt: skip
        assert at[sentence, head] == pytest.approx(expected, nan_ok=True)
        assert on[sentence, head] == pytest.approx([alone[:, marked[:n_keys]].sum() / n_queries])
        assert sure[sentence, head] == pytest.approx([alone[:, marked[:n_keys]].max(1).mean()])
        correlation = np.corrcoef(np.arange(n_queries), alone @ np.arange(n_keys))[0, 1]
        assert advances[sentence, head] == pytest.approx(correlation)
    assert np.isnan([entropies[1, :, 4], normalised[1, :, 4], centres[1, :, 4]]).all()


def test_measure_gathers_all_of_it() -> None:
    found = measures.measure(attention([EVEN, PREVIOUS], special=(2,)), head=1)
    assert (found.site, found.head) == ("encoder.0.self", 1)
    assert (found.entropy, found.normalised_entropy) == (0, 0)
    assert found.distance == pytest.approx(2 / 3)
    assert (found.previous, found.next, found.special, found.confidence) == (1, 0, 0, 1)
    assert found.roles == ("previous token",)


def test_cross_attention_has_no_distance_and_no_neighbours() -> None:
    found = measures.measure(attention([np.eye(3)], site="decoder.1.cross"), head=0)
    assert np.isnan([found.distance, found.previous, found.same, found.next]).all()
    assert found.roles == ("aligned",)


@pytest.mark.parametrize(
    ("weights", "roles"),
    [
        (PREVIOUS, ("previous token",)),
        (SAME, ("same token",)),
        (np.array([[0, 1.0, 0], [0, 0, 1], [0, 0, 1]]), ("next token", "special tokens")),
        (np.array([[0.4, 0.0, 0.6]] * 3), ("special tokens",)),
        (EVEN, ("broad",)),
        (np.array([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.8, 0.1, 0.1]]), ()),
    ],
)
def test_roles(weights: np.ndarray, roles: tuple[str, ...]) -> None:
    special = (2,) if "special tokens" in roles else ()
    assert measures.measure(attention([weights], special=special), 0).roles == roles


def test_a_role_begins_at_its_threshold() -> None:
    def head(previous: float, broad: float) -> HeadMeasures:
        return HeadMeasures(Site("encoder.0.self"), 0, 1.0, broad, 1.0, previous, 0.0, 0.0, 0.0, 0.5, 0.0)

    assert head(measures.SHARE, measures.BROAD).roles == ("previous token", "broad")
    assert head(measures.SHARE - 1e-9, measures.BROAD - 1e-9).roles == ()


def test_measure_all_goes_through_every_head_in_order() -> None:
    both = record(attention([EVEN, SAME]), attention([EVEN], site="decoder.0.cross"))
    found = [(m.site, m.head) for m in measures.measure_all(both)]
    assert found == [("encoder.0.self", 0), ("encoder.0.self", 1), ("decoder.0.cross", 0)]


def test_the_strongest_head_is_the_most_confident_about_real_tokens() -> None:
    on_mark = np.array([[0.0, 0.0, 1.0]] * 3)
    sharp = np.array([[0.1, 0.9, 0.0]] * 3)
    layers = record(
        attention([EVEN, on_mark], site="decoder.0.cross", special=(2,)),
        attention([EVEN, EVEN, sharp], site="decoder.1.cross", special=(2,)),
        attention([SAME], site="encoder.0.self"),
    )
    assert measures.strongest_head(layers) == StrongestHead(Site("decoder.1.cross"), layer=1, head=2)
    assert measures.strongest_head(layers, "encoder.self") == StrongestHead(Site("encoder.0.self"), layer=0, head=0)


def test_where_no_query_has_a_choice_the_first_head_is_the_strongest() -> None:
    alone = record(attention([np.ones((1, 1))] * 2))
    assert measures.strongest_head(alone, "encoder.self") == StrongestHead(Site("encoder.0.self"), 0, 0)


def test_an_unknown_kind_of_site_is_named() -> None:
    with pytest.raises(RecordError, match=r"kind='decoder.cross' is not in this record: choose one of encoder.self"):
        measures.strongest_head(record(attention([SAME])))


def test_agreement_of_equal_disjoint_and_known_rows() -> None:
    one, other = np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    assert measures.agreement(one, other) == pytest.approx([1, 1, 0], abs=1e-12)
    divergence = 0.5 * (math.log2(1 / 0.75) + 0.5 * math.log2(0.5 / 0.75) + 0.5 * math.log2(0.5 / 0.25))
    assert measures.agreement(one[:1], one[1:2]) == pytest.approx([1 - math.sqrt(divergence)])


@given(st.integers(0, 2**32 - 1), st.integers(1, 11))
def test_agreement_is_the_jensen_shannon_distance_by_its_definition(seed: int, n_keys: int) -> None:
    random = np.random.default_rng(seed)
    one, other = random.dirichlet(np.full(n_keys, 0.2), size=(2, 5))
    one[0] = np.eye(n_keys)[0]
    found = measures.agreement(3.0 * one, other)
    for p, q, value in zip(one.tolist(), other.tolist(), found, strict=True):
        middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        terms = [a * math.log2(a / m) for row in (p, q) for a, m in zip(row, middle, strict=True) if a > 0]
        distance = math.sqrt(max(0.0, math.fsum(terms) / 2))
        assert value == pytest.approx(1 - distance, abs=1e-7)
        assert (1 - value) ** 2 == pytest.approx(distance**2, abs=1e-12)


def test_an_empty_row_agrees_with_nothing_and_sizes_must_fit() -> None:
    assert np.isnan(measures.agreement(EMPTY, EMPTY)).tolist() == [False, True]
    with pytest.raises(RecordError, match=r"\(3, 3\) and \(2, 2\) cannot be compared"):
        measures.agreement(EVEN, EMPTY)


def test_a_site_without_layers_is_a_kind_of_its_own() -> None:
    pooling = attention([np.array([[0.2, 0.7, 0.1]])], "pooling")
    found = record(attention([SAME]), attention([EVEN], "encoder.1.self"), pooling)
    assert measures.sites_of(found, "pooling") == ("pooling",)
    assert measures.sites_of(found, "encoder.self") == ("encoder.0.self", "encoder.1.self")
    assert measures.strongest_head(found, "encoder.self") == StrongestHead("encoder.0.self", 0, 0)
    assert measures.strongest_head(found, "pooling") == StrongestHead("pooling", 0, 0)
    assert not measures.has_kind(found, "decoder.cross")
    with pytest.raises(RecordError, match=r"choose one of encoder\.self, pooling"):
        measures.sites_of(found, "decoder.cross")
