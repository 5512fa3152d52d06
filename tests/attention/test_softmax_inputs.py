"""Any part of a softmax that is asked for is the part of the whole, whatever was looked at before."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer.attention.softmax_inputs import AttentionInputs, Weights, row_groups
from transformer.nn.attention import DotProductAttention
from transformer.nn.masks import Mask

HEADS, D_K = 3, 5


def whole(source: AttentionInputs, batch: int, head: int) -> Tensor:
    """The weights by the book: all scores, the dense mask, one softmax."""
    scores = source.q[batch, head] @ source.k[batch, head].T * source.scale
    visible = source.mask.dense(source.n_queries, source.n_keys, torch.device("cpu"))
    if visible is not None:
        seen = visible.expand(len(source.q), 1, source.n_queries, source.n_keys)[batch, 0]
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0)


def example(n_queries: int, n_keys: int, causal: bool, padding: int | None, dtype: torch.dtype) -> AttentionInputs:
    q = torch.randn(2, HEADS, n_queries, D_K, dtype=dtype) * 3
    k = torch.randn(2, HEADS, n_keys, D_K, dtype=dtype) * 3
    keys = None
    if padding is not None:
        keys = torch.ones(2, n_keys, dtype=torch.bool)
        keys[1, max(0, n_keys - padding) :] = False
    return AttentionInputs(q, k, Mask(keys=keys, causal=causal), 0.7)


@given(
    n_queries=st.integers(1, 23),
    n_keys=st.integers(1, 19),
    causal=st.booleans(),
    padding=st.none() | st.integers(1, 19),
    data=st.data(),
)
def test_a_part_is_the_part_of_the_whole_at_the_first_look_and_later(
    n_queries: int, n_keys: int, causal: bool, padding: int | None, data: st.DataObject
) -> None:
    source = example(n_queries, n_keys, causal, padding, torch.float64)
    batch, head = data.draw(st.integers(0, 1)), data.draw(st.integers(0, HEADS - 1))
    expected = whole(source, batch, head)
    for _ in range(4):
        first, last = sorted(data.draw(st.tuples(st.integers(0, n_queries - 1), st.integers(0, n_queries - 1))))
        left, right = sorted(data.draw(st.tuples(st.integers(0, n_keys - 1), st.integers(0, n_keys - 1))))
        rows, keys = slice(first, last + 1), slice(left, right + 1)
        part = source.weights(batch, head, rows, keys)
        torch.testing.assert_close(part, expected[rows, keys], rtol=0, atol=1e-14)


@pytest.mark.parametrize("causal", [False, True])
def test_long_rows_are_computed_in_groups_that_join_without_a_seam(causal: bool) -> None:
    source = example(601, 601, causal, 7, torch.float64)
    rows, keys = slice(0, 601), slice(0, 601)
    torch.testing.assert_close(source.weights(1, 2, rows, keys), whole(source, 1, 2), rtol=0, atol=1e-14)
    again = source.weights(1, 2, slice(250, 530), slice(3, 599))
    torch.testing.assert_close(again, whole(source, 1, 2)[250:530, 3:599], rtol=0, atol=1e-14)


def test_a_row_that_sees_nothing_is_zero_at_every_look_as_in_the_fused_attention() -> None:
    q, k = torch.randn(2, 1, 1, 7, D_K)
    source = AttentionInputs(q, k, Mask(keys=torch.zeros(1, 7, dtype=torch.bool)), 1.0)
    for keys in (slice(0, 7), slice(2, 5), slice(0, 7)):
        assert not source.weights(0, 0, slice(0, 7), keys).any()
    fused = DotProductAttention(D_K).eval()(source.q, source.k, torch.randn(1, 1, 7, D_K), source.mask)
    assert not fused.any()


def test_nan_in_the_inputs_stays_nan() -> None:
    source = example(5, 5, False, None, torch.float32)
    source.q[0, 1, 2, 0] = torch.nan
    for _ in range(2):
        part = source.weights(0, 1, slice(1, 4), slice(0, 3))
        assert part.isnan().all(1).tolist() == [False, True, False]


def test_sharp_weights_are_exact_in_single_precision() -> None:
    source = example(61, 53, True, None, torch.float32)
    sharp = AttentionInputs(source.q * 9, source.k, source.mask, source.scale)
    exact = AttentionInputs(sharp.q.double(), sharp.k.double(), sharp.mask, sharp.scale)
    rows, keys = slice(0, 61), slice(11, 37)
    for _ in range(2):
        weights = sharp.weights(0, 0, rows, keys).double()
        torch.testing.assert_close(weights, exact.weights(0, 0, rows, keys), rtol=0, atol=1e-4)


def test_row_groups_cover_the_rows_once_in_order() -> None:
    groups = row_groups(slice(3, 14), 5)
    assert [(group.start, group.stop) for group in groups] == [(3, 8), (8, 13), (13, 14)]


def test_steps_of_a_recurrent_decoder_follow_each_other() -> None:
    steps = [torch.rand(2, 1, 1, 7) for _ in range(5)]
    joined = Weights.of_steps([Weights(step) for step in steps])
    assert (joined.n_heads, joined.n_queries, joined.n_keys) == (1, 5, 7)
    torch.testing.assert_close(joined.weights(1, 0, slice(3, 4), slice(0, 7)), steps[3][1, 0], rtol=0, atol=0)
    torch.testing.assert_close(joined.scores(1, 0, slice(3, 4), slice(2, 5)), steps[3][1, 0, :, 2:5].log())
