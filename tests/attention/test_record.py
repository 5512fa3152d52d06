"""Records: every way to look at a map shows the same numbers, and they are those of a plain softmax."""

import copy
import io
import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.attention.interventions.value import Intervention
from transformer.attention.masks_and_biases import MaskTable
from transformer.attention.record import AttentionMap, Record
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.errors import RecordError
from transformer.nn.masks import Mask
from transformer.plots.axes import Axis
from transformer.plots.picture import block_length
from transformer.sites import Site

BATCH, HEADS, D_K = 2, 3, 5
SCALE = D_K**-0.5


def numbered(name: str, count: int) -> Axis:
    return Axis.of_tokens(name, [str(i) for i in range(count)])


def attention(
    n_queries: int = 13,
    n_keys: int = 11,
    causal: bool = False,
    real: int | None = None,
    batch: int = 1,
    dtype: torch.dtype = torch.float64,
) -> AttentionMap:
    """A random map; with `real`, only that many keys of the batch element are no padding."""
    keys = None
    if real is not None:
        keys = torch.ones(BATCH, n_keys, dtype=torch.bool)
        keys[batch, real:] = False
    source = AttentionInputs(
        2 * torch.randn(BATCH, HEADS, n_queries, D_K, dtype=dtype),
        2 * torch.randn(BATCH, HEADS, n_keys, D_K, dtype=dtype),
        Mask(keys=keys, causal=causal),
        SCALE,
    )
    return AttentionMap(
        Site("decoder.0.cross"), numbered("target", n_queries), numbered("source", n_keys), source, batch
    )


def by_the_book(found: AttentionMap, head: int) -> np.ndarray:
    """exp(score) / sum of exp(score) over visible keys, row by row."""
    source = found.source
    assert isinstance(source, AttentionInputs)
    q, k = source.q[found.batch, head].double().numpy(), source.k[found.batch, head].double().numpy()
    exponentials = np.exp(q @ k.T * SCALE) * found.mask()
    sums = exponentials.sum(axis=1, keepdims=True)
    return np.divide(exponentials, sums, where=sums > 0, out=np.zeros_like(exponentials))


shapes = st.fixed_dictionaries(
    dict(
        n_queries=st.integers(1, 23),
        n_keys=st.integers(1, 19),
        causal=st.booleans(),
        real=st.none() | st.integers(0, 19),
    )
)


@given(shapes)
def test_weights_are_the_softmax_of_visible_scores(shape: dict[str, Any]) -> None:
    found = attention(**shape)
    for head in range(HEADS):
        np.testing.assert_allclose(found.weights(head), by_the_book(found, head), rtol=0, atol=1e-12)


@given(shapes)
def test_rows_sum_to_one_and_rows_that_see_nothing_to_zero(shape: dict[str, Any]) -> None:
    found = attention(**shape)
    expected = found.mask().any(axis=1).astype(float)
    np.testing.assert_allclose(found.weights(1).sum(1), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.weights(1).sum(axis=1), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.head_average().sum(axis=1), expected, rtol=0, atol=1e-12)


@given(shapes, st.data())
def test_a_tile_is_a_slice_of_the_whole(shape: dict[str, Any], data: st.DataObject) -> None:
    found = attention(**shape)
    fresh = copy.deepcopy(found)
    ends = st.integers(-25, 25) | st.none()
    queries, keys = slice(data.draw(ends), data.draw(ends)), slice(data.draw(ends), data.draw(ends))
    whole = found.weights(2)
    for _ in range(2):
        np.testing.assert_allclose(fresh.tile(2, queries, keys), whole[queries, keys], rtol=0, atol=1e-14)


def test_all_heads_and_their_mean() -> None:
    found = attention()
    assert found.all_weights().shape == (HEADS, 13, 11)
    np.testing.assert_array_equal(found.all_weights()[2], found.weights(2))
    np.testing.assert_array_equal(found.head_average(), np.mean([found.weights(h) for h in range(HEADS)], axis=0))


def test_scores_are_scaled_dot_products_before_the_mask() -> None:
    found = attention(n_queries=11, causal=True, real=7)
    assert isinstance(found.source, AttentionInputs)
    q, k = found.source.q[1, 0].numpy(), found.source.k[1, 0].numpy()
    np.testing.assert_allclose(found.scores(0), q @ k.T * SCALE, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("real", [None, 7])
def test_the_mask_says_who_may_see_whom(causal: bool, real: int | None) -> None:
    past = np.tri(11, dtype=bool) if causal else np.ones((11, 11), dtype=bool)
    assert (attention(n_queries=11, causal=causal, real=real).mask() == past & (np.arange(11) < (real or 11))).all()


def blocks(cells: np.ndarray, size: int) -> np.ndarray:
    """Blocks one by one: the plain meaning of an overview."""
    tall, wide = (math.ceil(n / size) for n in cells.shape)
    return np.array(
        [
            [np.max(cells[i : i + tall, j : j + wide]) for j in range(0, cells.shape[1], wide)]
            for i in range(0, cells.shape[0], tall)
        ]
    )


@given(shapes, st.integers(1, 25))
def test_an_overview_is_the_whole_map_in_blocks(shape: dict[str, Any], size: int) -> None:
    found = attention(**shape)
    overview = found.overview(0, size)
    assert max(overview.shape) <= size
    np.testing.assert_allclose(overview, blocks(by_the_book(found, 0), size), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.overview_mask(size), blocks(found.mask(), size))


@pytest.mark.parametrize("n", [512, 601])
@pytest.mark.parametrize("causal", [False, True])
def test_a_long_overview_joins_without_a_seam(n: int, causal: bool) -> None:
    found = attention(n, n, causal, real=n - 17)
    for size in (64, 256):
        np.testing.assert_allclose(found.overview(1, size), blocks(by_the_book(found, 1), size), rtol=0, atol=1e-12)


def test_block_lengths() -> None:
    assert [block_length(n, 4) for n in (0, 1, 4, 5, 8, 9)] == [1, 1, 1, 2, 2, 3]
    with pytest.raises(RecordError, match="size=0 is too small for an overview: choose at least 1"):
        block_length(5, 0)


def test_padding_beyond_the_axes_is_left_out() -> None:
    padded = attention(13, 11, real=7)
    found = AttentionMap(Site("encoder.0.self"), numbered("target", 5), numbered("source", 7), padded.source, batch=1)
    whole = by_the_book(padded, 0)[:5, :7]
    assert found.shape == found.mask().shape == found.scores(0).shape == (5, 7)
    np.testing.assert_allclose(found.weights(0), whole, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.weights(0).sum(1), np.ones(5), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.overview(0, 3), blocks(whole, 3), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.tile(0, slice(None), slice(2, None)), whole[:, 2:], rtol=0, atol=1e-12)


def test_the_mask_of_shorter_axes_is_the_beginning_of_the_whole() -> None:
    """Only the last keys are padding here, so a mask that were cut from its other end would show them."""
    for causal in (False, True):
        padded = attention(13, 11, causal, real=7)
        for n_keys in (11, 9, 5):
            keys = numbered("source", n_keys)
            found = AttentionMap(Site("decoder.0.self"), numbered("target", 13), keys, padded.source, batch=1)
            expected = [[key < 7 and (not causal or key <= query - 2) for key in range(n_keys)] for query in range(13)]
            np.testing.assert_array_equal(found.mask(), expected)


def test_looking_inside_inference_mode_does_not_spoil_later_looks() -> None:
    found = attention()
    with torch.inference_mode():
        found.tile(0, slice(0, 3), slice(0, 5))
    np.testing.assert_allclose(found.tile(0, slice(0, 9), slice(0, 5)), found.weights(0)[:9, :5], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("what", "remedy"),
    [
        (lambda found: found.weights(3), "head=3 is not in decoder.0.cross: choose 0 to 2"),
        (lambda found: found.overview(-1), "head=-1 is not in decoder.0.cross: choose 0 to 2"),
        (
            lambda found: found.tile(0, slice(0, 9, 2), slice(0, 5)),
            "leaves out positions: ask for a tile without a step",
        ),
        (
            lambda found: Record({Site("a.0.self"): found})["b"],
            "site='b' is not in this record: choose one of a.0.self",
        ),
    ],
)
def test_what_is_not_there_is_named_with_what_is(what, remedy: str) -> None:
    with pytest.raises(RecordError, match=remedy):
        what(attention())


def pieces(name: str, texts: str) -> Axis:
    parts = texts.split()
    return Axis.of_pieces(name, parts, [part.startswith("<") for part in parts])


def in_pieces() -> AttentionMap:
    """Queries `Fahr|rad fährt </s>`, keys `bi|cycle rid|es </s>`."""
    found = attention(4, 5)
    queries, keys = pieces("target", "▁Fahr rad ▁fährt </s>"), pieces("source", "▁bi cycle ▁rid es </s>")
    return AttentionMap(Site("decoder.0.cross"), queries, keys, found.source, batch=1)


def test_a_picture_of_a_head_holds_its_weights() -> None:
    found = in_pieces()
    picture = found.picture(2)
    np.testing.assert_array_equal(picture.values, found.weights(2))
    assert (picture.title, picture.unit) == ("decoder.0.cross · head 2", "attention weight (probability)")
    assert (picture.queries, picture.keys, picture.notes) == (found.queries, found.keys, ())
    assert picture.visible.all()


def test_a_picture_of_the_mean() -> None:
    picture = in_pieces().picture("mean")
    assert picture.head == "mean of 3 heads"
    assert picture.values.sum(axis=1) == pytest.approx(np.ones(4))


def test_words_sum_over_keys_and_average_over_queries() -> None:
    found = in_pieces()
    weights, picture = found.weights(1), found.picture(1, words=True)
    summed = np.stack([weights[:, :2].sum(axis=1), weights[:, 2:4].sum(axis=1), weights[:, 4]], axis=1)
    expected = np.stack([summed[:2].mean(axis=0), summed[2], summed[3]])
    np.testing.assert_allclose(picture.values, expected, rtol=0, atol=1e-15)
    assert picture.values.sum(axis=1) == pytest.approx(np.ones(3))
    assert picture.queries.texts == ("Fahrrad", "fährt", "</s>")
    assert picture.keys.texts == ("bicycle", "rides", "</s>")
    assert "merged to words" in picture.notes[0]


def test_a_word_sees_a_word_if_one_of_its_pieces_does() -> None:
    found = attention(4, 4, causal=True)
    axis = pieces("target", "▁Fahr rad ▁fährt </s>")
    picture = AttentionMap(Site("decoder.0.self"), axis, axis, found.source, batch=1).picture(0, words=True)
    assert picture.visible.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_hidden_special_tokens_leave_rows_that_the_notes_explain() -> None:
    found = in_pieces()
    picture = found.picture(0, special=False)
    np.testing.assert_array_equal(picture.values, found.weights(0)[:3, :4])
    assert picture.queries.texts == ("▁Fahr", "rad", "▁fährt")
    assert picture.visible.shape == (3, 4)
    assert picture.notes == ("special tokens are hidden: rows no longer sum to 1",)
    assert found.picture(0, words=True, special=False).keys.texts == ("bicycle", "rides")


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_all_pictures_at_once_are_those_of_each_head_and_of_the_mean(words: bool, special: bool) -> None:
    found = in_pieces()
    at_once = found.pictures(words, special)
    assert [str(one.head) for one in at_once] == ["head 0", "head 1", "head 2", "mean of 3 heads"]
    for head, picture in zip((0, 1, 2, "mean"), at_once, strict=True):
        alone = found.picture(head, words, special)
        np.testing.assert_array_equal(picture.values, alone.values)
        np.testing.assert_array_equal(picture.visible, alone.visible)
        assert (picture.queries, picture.keys, picture.notes) == (alone.queries, alone.keys, alone.notes)


def test_scores_have_their_own_unit_and_stay_in_pieces() -> None:
    found = in_pieces()
    picture = found.picture(0, words=True, scores=True)
    np.testing.assert_array_equal(picture.values, found.scores(0))
    assert picture.unit.startswith("score")
    assert picture.keys == found.keys
    assert "not merged" in picture.notes[0]


def test_the_mean_of_scores_is_one_of_scores() -> None:
    found = in_pieces()
    picture = found.picture("mean", scores=True)
    np.testing.assert_allclose(picture.values, np.mean([found.scores(head) for head in range(HEADS)], axis=0))
    assert picture.unit.startswith("score")


def test_a_row_that_sees_nothing_is_drawn_as_masked_zeros() -> None:
    picture = attention(real=0).picture(0)
    assert not picture.visible.any()
    assert not picture.values.any()
    assert not np.isnan(attention(real=0).overview(0, 3)).any()


@given(st.integers(1, 23), st.integers(1, 19), st.booleans(), st.integers(1, 25))
def test_a_reduced_picture_is_an_overview_of_it(n_queries: int, n_keys: int, causal: bool, size: int) -> None:
    found = attention(n_queries, n_keys, causal)
    picture = found.picture(0).reduced(size)
    np.testing.assert_array_equal(picture.values, found.overview(0, size))
    np.testing.assert_array_equal(picture.visible, found.overview_mask(size))
    assert (len(picture.queries), len(picture.keys)) == picture.values.shape
    assert picture.queries.texts[-1] == str((len(picture.queries) - 1) * block_length(n_queries, size))
    assert bool(picture.notes) == (max(n_queries, n_keys) > size)


def test_a_figure_for_a_notebook_is_a_heatmap_of_the_picture() -> None:
    found = in_pieces()
    figure = found.figure(head=2)
    assert isinstance(figure, go.Figure)
    np.testing.assert_array_equal(figure.data[0].z, found.weights(2))
    np.testing.assert_array_equal(found.figure().data[0].z, found.head_average())


def test_kept_weights_are_what_is_shown() -> None:
    values = torch.rand(BATCH, 1, 7, 5)
    found = AttentionMap(Site("decoder.cross"), numbered("target", 7), numbered("source", 5), Weights(values), batch=1)
    np.testing.assert_array_equal(found.weights(0), values[1, 0])
    np.testing.assert_array_equal(found.tile(0, slice(2, 5), slice(1, 3)), values[1, 0, 2:5, 1:3])
    np.testing.assert_array_equal(found.overview(0, 3), blocks(values[1, 0].numpy(), 3))
    np.testing.assert_array_equal(found.scores(0), values[1, 0].log())
    assert found.mask().all()
    assert found.mask().shape == (7, 5)


@pytest.mark.parametrize("changed", [True, False])
def test_notes_count_rows_without_weight_and_rows_that_sum_to_less_apart(changed: bool) -> None:
    """Of seven rows two have no weight left, three sum to less than 1, one sees nothing: that was so before."""
    values = torch.full((1, 1, 7, 5), 0.2, dtype=torch.float64)
    values[..., [1, 4], :] = 0.0
    values[..., [0, 2, 5], 3] = 0.0
    values[..., 6, :] = 0.0
    visible = torch.ones(1, 1, 7, 5, dtype=torch.bool)
    visible[..., 6, :] = False
    done = (Intervention("encoder.0.self", "knock_out", keys=(3,)),) if changed else ()
    source = Weights(values, MaskTable(visible=visible))
    axes = numbered("query", 7), numbered("key", 5)
    picture = AttentionMap(Site("encoder.0.self"), *axes, source, interventions=done).picture(0)
    assert [str(note) for note in picture.notes if str(note).startswith("rows that")] == changed * [
        "rows that see nothing after the change: 2; their weights, and what the head gives on for them, are 0",
        "rows that sum to less than 1, since cells were cut: 3",
    ]


def record() -> Record:
    return Record({Site("encoder.0.self"): attention(7, 7), Site("decoder.0.cross"): in_pieces()})


def test_a_record_says_what_it_does_not_have_without_an_error() -> None:
    record = Record({Site("encoder.0.self"): attention(7, 7)})
    assert "encoder.0.self" in record
    assert "pooling" not in record


def test_a_record_is_a_mapping_in_the_order_of_the_run() -> None:
    found = record()
    assert found.sites == tuple(found) == ("encoder.0.self", "decoder.0.cross")
    assert len(found) == 2
    assert found.kept_bytes == sum(attention.source.kept_bytes for attention in found.values())


def test_an_npz_holds_everything_and_reads_back_the_same() -> None:
    found = record()
    with np.load(io.BytesIO(found.npz()), allow_pickle=False) as archive:
        assert len(archive.files) == 4 * len(found)
        for site, attention_map in found.items():
            np.testing.assert_array_equal(archive[site], attention_map.all_weights())
            np.testing.assert_array_equal(archive[f"{site}.mask"], attention_map.mask())
            assert tuple(archive[f"{site}.queries"]) == attention_map.queries.labels
            assert tuple(archive[f"{site}.keys"]) == attention_map.keys.labels
