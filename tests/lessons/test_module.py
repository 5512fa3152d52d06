"""nn.MultiheadAttention as the lesson calls it: the shown code is run, and gives the shown shapes and numbers."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from transformer.lessons.module import (
    BATCH,
    DTYPES,
    FILLS,
    HEADS,
    KEY_WIDTH,
    KEYS,
    MASKS,
    MORE,
    PER_HEAD,
    QUERIES,
    VALUE_WIDTH,
    WIDTH,
    Call,
    blind_rows,
    called,
    causal_alone,
    decoder_arguments,
    fills,
)

AXES = {
    "batch": BATCH, "query": QUERIES, "key": KEYS, "d_model": WIDTH, "heads": HEADS, "d_head": WIDTH // HEADS,
    "kdim": KEY_WIDTH, "vdim": VALUE_WIDTH, "3 * d_model": 3 * WIDTH, "batch * heads": BATCH * HEADS,
    "key + 1": KEYS + 1,
}  # fmt: skip
CALLS = [
    Call(mask, batch_first, weights != "none", weights == "mean", own, more)
    for mask, batch_first, weights, own, more in product(
        MASKS, (True, False), ("mean", "heads", "none"), (True, False), MORE
    )
]


def test_the_code_gives_the_shapes_and_the_weights_that_are_shown():
    for call in CALLS:
        space: dict[str, Any] = {"torch": torch, "nn": nn}
        torch.manual_seed(0)
        exec(call.code, space)
        found = called(call)
        assert (found.weights is None) == (not call.need_weights) == (space["weights"] is None)
        if found.weights is not None:
            torch.testing.assert_close(found.weights, space["weights"].detach())
        for name, axes, sizes, dtype in found.shapes:
            assert sizes == tuple(AXES[axis] for axis in axes.strip("()").split(", ")), (call, name)
            if name == PER_HEAD:
                continue
            given = {"key_padding_mask": "mask", "attn_mask": "mask"}.get(name, name)
            made = space[given] if given in space else space["attention"].get_parameter(name)
            assert (tuple(made.shape), str(made.dtype)) == (sizes, f"torch.{dtype}"), (call, name)
        mask = {"none": set(), "key_padding": {"key_padding_mask"}}.get(call.mask, {"attn_mask"})
        assert mask == {shape.name for shape in found.shapes} & {"key_padding_mask", "attn_mask"}


def test_each_mask_of_a_decoder_cuts_off_its_own_words():
    """By the masks themselves: an output changes with each word that some way leads from, its own residual included."""
    moved = {one.name: one.moved for one in decoder_arguments()}
    past = [sum(i >= j for i in range(QUERIES)) for j in range(QUERIES)]
    assert moved["tgt_mask"] == tuple(past)
    assert moved["tgt_key_padding_mask"] == (QUERIES,) * (QUERIES - 1) + (1,)
    assert moved["memory_mask"] == tuple(sum(j <= i for i in range(QUERIES)) for j in range(KEYS))
    assert moved["memory_key_padding_mask"] == (QUERIES,) * (KEYS - 2) + (0, 0)


def test_a_key_more_is_the_last_one_and_no_mask_hides_it():
    for more in MORE[1:]:
        weights = called(Call("key_padding", average=False, more=more)).weights
        assert weights.shape[-1] == KEYS + 1
        assert (weights[1, :, :, KEYS - 2 : KEYS] == 0).all()
        assert (weights[..., KEYS] > 0).all()


def test_returned_weights_are_the_mean_over_heads():
    mean, heads = (called(Call("attn_3d", average=average)).weights for average in (True, False))
    assert mean is not None
    assert heads is not None
    assert heads.shape == (BATCH, HEADS, QUERIES, KEYS)
    torch.testing.assert_close(heads.mean(1), mean)
    future = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)
    assert not heads[:, :, future].any()
    assert not heads[1, :, :, KEYS - 2 :].any()


def test_a_row_that_sees_nothing_is_what_this_pytorch_makes_of_it():
    with_weights, without = blind_rows()
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x, hidden = torch.randn(1, KEYS, WIDTH), torch.ones(1, KEYS, dtype=torch.bool)
    for one in (with_weights, without):
        output, _ = attention(x, x, x, key_padding_mask=hidden, need_weights=one.need_weights)
        assert one.output == ("nan" if bool(output.isnan().all()) else "0" if not bool(output.any()) else one.output)
    assert (with_weights.need_weights, without.need_weights) == (True, False)
    assert with_weights.weights == "nan"
    assert without.weights == ""


def test_the_hint_alone_is_taken_or_refused_as_pytorch_does():
    attention, x = nn.MultiheadAttention(4, 1, batch_first=True), torch.zeros(1, 3, 4)
    if causal_alone():
        attention(x, x, x, is_causal=True)
    else:
        with pytest.raises(RuntimeError, match="attn_mask"):
            attention(x, x, x, is_causal=True)


def test_fills_are_executed_in_every_type():
    found = {(one.dtype, one.fill): one for one in fills()}
    assert set(found) == set(product(DTYPES, FILLS))
    assert found["float16", "-1e9"].one_hidden is None
    for dtype in DTYPES:
        assert found[dtype, "-inf"].all_hidden == ("nan",) * 3
        finite = found[dtype, "torch.finfo(dtype).min"]
        assert finite.one_hidden is not None
        assert finite.all_hidden is not None
        assert finite.one_hidden[2] == "0"
        assert [float(weight) for weight in finite.all_hidden] == pytest.approx([1 / 3] * 3, abs=2e-3)
    one, two = 1 / (1 + torch.e), torch.e / (1 + torch.e)
    assert found["float64", "-1e9"].one_hidden == (f"{one:.3g}", f"{two:.3g}", "0")
