"""Measures of attention: exact on maps made by hand, and within their bounds on any; alignments of two models."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedmap.attention import measures
from heedmap.attention.alignments import Head, alignment, best_agreeing, compared, heads_of, on_one_axis
from heedmap.attention.record import AttentionMap, Record
from heedmap.attention.softmax_inputs import Weights
from heedmap.errors import RecordError
from heedmap.plots.axes import Axis
from heedmap.plots.picture import Picture
from heedmap.sites import Site
from tests.attention.maps import record_of

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
    queries = Axis.of_tokens("query", ["?"] * n_queries)
    return AttentionMap(Site(site), queries, keys, Weights(torch.tensor(np.array([heads]))))


@given(maps)
def test_entropy_is_the_sum_of_the_definition(weights: np.ndarray) -> None:
    expected = [sum(-p * math.log(p) for p in row if p > 0) for row in weights.tolist()]
    np.testing.assert_allclose(measures.entropy(weights), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("measure", [measures.entropy, measures.distance, lambda rows: measures.agreement(rows, rows)])
def test_an_empty_row_has_no_measure(measure: Callable[[np.ndarray], np.ndarray]) -> None:
    assert np.isnan(measure(EMPTY)).tolist() == [False, True]


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


def test_queries_without_a_choice_and_masked_neighbours_do_not_count() -> None:
    causal = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.1, 0.2, 0.7]])
    same, following = measures.share_at(causal, PAST, (0, 1)).mean
    assert same == pytest.approx((0.5 + 0.7) / 2)
    assert np.isnan(following)
    first = np.array([[True], [False], [False]])
    assert measures.share_on(causal, PAST, first).mean == pytest.approx([(0.5 + 0.1) / 2])
    assert measures.confidence(causal, PAST, np.array([True, True, False])).mean == pytest.approx([(0.5 + 0.2) / 2])
    assert np.isnan(measures.confidence(causal, PAST, np.array([False] * 3)).mean).all()


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (np.eye(4), 1.0),
        (np.eye(4)[::-1], -1.0),
        (EVEN, np.nan),
        (np.eye(2), np.nan),
        (np.insert(np.eye(4), 2, 0, axis=0), np.corrcoef([0, 1, 3, 4], [0, 1, 2, 3])[0, 1]),  # one sees nothing
    ],
)
def test_advance_is_one_for_reading_in_step_and_minus_one_for_backwards(weights: np.ndarray, expected: float) -> None:
    assert measures.advance(measures.centre(weights)) == pytest.approx(expected, nan_ok=True)


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
    expected = dict(entropy=0, normalised_entropy=0, distance=2 / 3, previous=1, next=0, special=0, confidence=1)
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_cross_attention_has_no_distance_and_no_neighbours() -> None:
    found = measures.measure(attention([np.eye(3)], site="decoder.1.cross"), head=0)
    assert np.isnan([found[name] for name in ("distance", "previous", "same", "next")]).all()
    assert found["advance"] == pytest.approx(1)


def test_the_table_goes_through_every_head_in_order() -> None:
    table = measures.measures_table(record_of(attention([EVEN, SAME]), attention([EVEN], site="decoder.0.cross")))
    found = list(zip(table["site"], table["head"], table["confidence"].round(2), strict=True))
    assert found == [("encoder.0.self", 0, 0.33), ("encoder.0.self", 1, 1.0), ("decoder.0.cross", 0, 0.33)]


def test_the_strongest_head_is_the_most_confident_about_real_tokens() -> None:
    on_mark = np.array([[0.0, 0.0, 1.0]] * 3)
    sharp = np.array([[0.1, 0.9, 0.0]] * 3)
    layers = record_of(
        attention([EVEN, on_mark], site="decoder.0.cross", special=(2,)),
        attention([EVEN, EVEN, sharp], site="decoder.1.cross", special=(2,)),
        attention([SAME], site="encoder.0.self"),
    )
    assert measures.strongest_head(layers) == (1, 2)
    assert measures.strongest_head(layers, "encoder.self") == (0, 0)
    pooling = record_of(attention([SAME]), attention([np.array([[0.2, 0.7, 0.1]])], "pooling"))
    assert measures.sites_of(pooling, "pooling") == ("pooling",), "a site without layers is a kind of its own"
    assert measures.strongest_head(pooling, "pooling") == (0, 0)
    no_choice = record_of(attention([np.ones((1, 1))] * 2))
    assert measures.strongest_head(no_choice, "encoder.self") == (0, 0)
    with pytest.raises(RecordError, match=r"kind='decoder.cross' is not .*: choose one of encoder.self, pooling"):
        measures.strongest_head(pooling)


def test_of_more_heads_than_can_be_looked_through_one_in_so_many_is(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(3).dirichlet(np.ones(3), (5, 7, 3))
    layers = record_of(*(attention(drawn[i], site=f"encoder.{i}.self") for i in range(5)))
    sure = drawn.max(-1).mean(-1).reshape(-1)
    for cells, step in ((10**6, 1), (5 * 7 * 9, 1), (5 * 7 * 9 - 1, 2), (9 * 9, 4), (9, 35), (8, 0)):
        monkeypatch.setattr(measures, "MOST_CELLS", cells)
        found = layers.maps.values()
        assert measures.looked_through([*found]) == step
        best = 0 if not step else step * int(sure[::step].argmax())
        assert measures.strongest_head(layers, "encoder.self") == divmod(best, 7)
    monkeypatch.setattr(measures, "MOST_CELLS", 10**6)
    monkeypatch.setattr(measures, "MOST_LAYERS", 3)
    assert measures.looked_through([*layers.values()]) == 12


@given(st.integers(0, 2**32 - 1), st.integers(1, 11))
def test_agreement_is_the_jensen_shannon_distance_by_its_definition(seed: int, n_keys: int) -> None:
    random = np.random.default_rng(seed)
    one, other = random.dirichlet(np.full(n_keys, 0.2), size=(2, 5))
    one[0] = np.eye(n_keys)[0]  # equal below, or without a common key
    other[0] = np.eye(n_keys)[-1]
    found = measures.agreement(3.0 * one, other)
    for p, q, value in zip(one.tolist(), other.tolist(), found, strict=True):
        middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        terms = [a * math.log2(a / m) for row in (p, q) for a, m in zip(row, middle, strict=True) if a > 0]
        distance = math.sqrt(max(0.0, math.fsum(terms) / 2))
        assert value == pytest.approx(1 - distance, abs=1e-7)
        assert (1 - value) ** 2 == pytest.approx(distance**2, abs=1e-12)


def test_maps_of_other_sizes_are_not_compared() -> None:
    with pytest.raises(RecordError, match=r"\(3, 3\) and \(2, 2\) cannot be compared"):
        measures.agreement(EVEN, EMPTY)


def picture(rows: list[list[float]], keys: tuple[str, ...], queries: tuple[str, ...], special: int = 0) -> Picture:
    """A map whose last `special` queries are marks."""
    values = np.array(rows, dtype=float)
    marks = tuple(i >= len(queries) - special for i in range(len(queries)))
    return Picture(
        "decoder.cross", "head 0", values, np.ones(values.shape, dtype=bool),
        Axis("target", queries, tuple(range(len(queries))), marks), Axis.of_tokens("source", keys),
    )  # fmt: skip


def crosses(layers: int, heads: int, seed: int) -> Record:
    """Cross-attention of five words to seven, drawn at random."""
    drawn = np.random.default_rng(seed).dirichlet(np.full(7, 0.3), size=(layers, heads, 5))
    return record_of(*(attention([*of_layer], f"decoder.{layer}.cross") for layer, of_layer in enumerate(drawn)))


def test_every_head_and_every_layers_mean_can_stand_for_a_model_with_the_records_map_in_words() -> None:
    record = crosses(3, 2, 0)
    assert heads_of(record) == tuple(Head(layer, head) for layer in range(3) for head in (0, 1, "mean"))
    assert heads_of(crosses(1, 1, 0)) == (Head(0, 0),)
    found = alignment(record, Head(2, 1))
    np.testing.assert_array_equal(found.values, record["decoder.2.cross"].picture(1, words=True).values)
    with pytest.raises(RecordError, match="layer=3"):
        alignment(record, Head(3, 0))


def test_the_best_agreeing_head_is_the_best_of_all_and_itself() -> None:
    record, other = crosses(4, 3, 1), alignment(crosses(1, 1, 2), Head(0, 0))
    best, mean = best_agreeing(record, other)
    maps = {Head(*place): alignment(record, Head(*place)).values for place in np.ndindex(4, 3)}
    means = {head: measures.agreement(one, other.values).mean() for head, one in maps.items()}
    assert mean == pytest.approx(max(means.values())) == means[best]
    for head in (Head(1, 2), Head(3, 0)):
        best, mean = best_agreeing(record, alignment(record, head))
        assert (best, round(mean, 6)) == (head, 1)


def test_mass_past_the_source_has_a_place_in_both_maps() -> None:
    first = picture([[0.5, 0.5], [1, 0]], ("a", "b"), ("x", "y"))
    second = picture([[0.25, 0.25, 0.5], [0, 0, 1]], ("a", "b", "past"), ("x", "y"))
    one, other = on_one_axis(first, second)
    assert one.keys.texts == other.keys.texts == ("a", "b", "past")
    assert one.visible.tolist() == [[True, True, False]] * 2
    assert other.visible.all()
    np.testing.assert_array_equal(one.values[:, :-1], first.values)
    np.testing.assert_array_equal(other.values, second.values)
    difference = compared(first, second).difference
    np.testing.assert_array_equal(difference.values[:, -1], [-0.5, -1])
    assert difference.visible.all()


def test_the_mean_agreement_leaves_out_the_end_token() -> None:
    keys, queries = ("a", "b"), ("x", "y", "z", "</s>")
    first = picture([[1, 0], [1, 0], [0.5, 0.5], [1, 0]], keys, queries, special=1)
    second = picture([[1, 0], [0, 1], [1, 0], [0, 1]], keys, queries, special=1)
    found = compared(first, second)
    np.testing.assert_array_equal(found.agreement, measures.agreement(first.values, second.values))
    assert found.agreement[[0, 1, 3]].tolist() == [1, 0, 0]
    assert found.mean == pytest.approx(found.agreement[:3].mean())
    np.testing.assert_array_equal(found.difference.values, first.values - second.values)


def test_other_targets_and_other_sources_are_refused() -> None:
    row = [[0.5, 0.5]]
    with pytest.raises(RecordError, match="different targets"):
        compared(picture(row, ("a", "b"), ("x",)), picture(row, ("a", "b"), ("y",)))
    with pytest.raises(RecordError, match="different sources"):
        compared(picture(row, ("a", "b"), ("x",)), picture(row, ("a", "c"), ("x",)))
