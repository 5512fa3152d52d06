"""Masks in every convention: each shown line of code is run against the real call, and the outputs are compared."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.errors import InputError
from transformer.lessons.conventions import (
    CONVENTIONS,
    HIDDEN,
    VISIBLE,
    conversion,
    converted,
    holds,
    part_of,
    restored,
)
from transformer.messages import speaking

BATCH, QUERIES, HEADS, SIZE = 3, 5, 2, 3
"""Keys are as many as queries, so that a mask can be causal."""

PAST = np.tri(QUERIES, dtype=bool)
REAL = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], dtype=bool)
MASKS = {
    "one padding": np.broadcast_to(REAL[2], (BATCH, QUERIES, QUERIES)),
    "padding": np.broadcast_to(REAL[:, None], (BATCH, QUERIES, QUERIES)),
    "causal": np.broadcast_to(PAST, (BATCH, QUERIES, QUERIES)),
    "both": PAST & REAL[:, None],
}
CANNOT = {
    "one padding": set(),
    "padding": {"attn_2d"},
    "causal": {"annotated_source", "key_padding"},
    "both": {"annotated_source", "key_padding", "attn_2d"},
}
"""Which conventions cannot hold a mask, from their shapes: no axis for queries, or none for sentences."""


class AnnotatedAttention:
    """The Annotated Transformer's MultiHeadedAttention, its projections left out."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        mask = mask.unsqueeze(1)
        query, key, value = (x.view(BATCH, -1, HEADS, SIZE).transpose(1, 2) for x in (query, key, value))
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(SIZE)
        weights = scores.masked_fill(mask == 0, -1e9).softmax(dim=-1)
        return torch.matmul(weights, value).transpose(1, 2).contiguous().view(BATCH, -1, HEADS * SIZE)


class JadoreAttention:
    """jadore801120's MultiHeadAttention, its projections, residual and norm left out."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (x.view(BATCH, x.size(1), HEADS, SIZE).transpose(1, 2) for x in (q, k, v))
        weights = torch.matmul(q / SIZE**0.5, k.transpose(2, 3)).masked_fill(mask.unsqueeze(1) == 0, -1e9).softmax(-1)
        return torch.matmul(weights, v).transpose(1, 2).contiguous().view(BATCH, q.size(2), -1), weights


def torch_attention() -> nn.MultiheadAttention:
    """The real module, whose projections change nothing."""
    attention = nn.MultiheadAttention(HEADS * SIZE, HEADS, batch_first=True, bias=False).double()
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.eye(HEADS * SIZE).repeat(3, 1))
        attention.out_proj.weight.copy_(torch.eye(HEADS * SIZE))
    return attention


def by_hand(inputs: list[Tensor], visible: np.ndarray) -> np.ndarray:
    """Attention from its definition, one number at a time."""
    q, k, v = (x.numpy() for x in inputs)
    output = np.zeros_like(q)
    for b, h, i in product(range(BATCH), range(HEADS), range(QUERIES)):
        part = slice(h * SIZE, (h + 1) * SIZE)
        seen = [j for j in range(QUERIES) if visible[b, i, j]]
        powers = [math.exp(q[b, i, part] @ k[b, j, part] / math.sqrt(SIZE)) for j in seen]
        output[b, i, part] = sum(p / sum(powers) * v[b, j, part] for p, j in zip(powers, seen, strict=True))
    return output


def space_of(wanted: str, inputs: list[Tensor]) -> dict[str, Any]:
    """What the code of a convention finds when it is run: the real call, and inputs as that call takes them."""
    if wanted in {"sdpa", "additive"}:
        inputs = [x.view(BATCH, QUERIES, HEADS, SIZE).transpose(1, 2) for x in inputs]
    own = {
        "annotated_source": AnnotatedAttention,
        "annotated_target": AnnotatedAttention,
        "jadore": JadoreAttention,
    }
    return {
        **dict(zip("qkv", inputs, strict=True)), "torch": torch, "F": F, "n_heads": HEADS, "n_queries": QUERIES,
        "n_batch": BATCH, "attention": own.get(wanted, torch_attention)(),
    }  # fmt: skip


def test_which_conventions_can_hold_a_mask_alone():
    for name, visible in MASKS.items():
        assert {one for one in CONVENTIONS if not holds(visible, one)} == CANNOT[name]


@pytest.mark.parametrize("name", MASKS)
def test_every_conversion_runs_and_the_real_call_gives_attention_by_its_definition(name: str):
    torch.manual_seed(5)
    inputs = [torch.randn(BATCH, QUERIES, HEADS * SIZE, dtype=torch.float64) for _ in range(3)]
    visible = MASKS[name]
    expected = by_hand(inputs, visible)
    able = [one for one in CONVENTIONS if one not in CANNOT[name]]
    for given, wanted in product([VISIBLE, *able], able):
        space = space_of(wanted, inputs)
        start = visible if given == VISIBLE else converted(visible, given, HEADS)
        space["visible" if given == VISIBLE else "mask"] = torch.from_numpy(np.array(start))
        if wanted == "additive":
            space |= {x: space[x].float() for x in "qkv"}  # a mask of float32 is for such queries and keys
        exec(conversion(given, wanted), space)
        np.testing.assert_array_equal(space["visible"].numpy(), visible)
        np.testing.assert_array_equal(space["mask"].numpy(), converted(visible, wanted, HEADS))
        output = space["output"]
        if wanted in {"sdpa", "additive"}:
            output = output.transpose(1, 2).reshape(BATCH, QUERIES, -1)
        tolerance = 1e-6 if wanted == "additive" else 1e-9
        np.testing.assert_allclose(output.detach().numpy(), expected, atol=tolerance, err_msg=f"{given} to {wanted}")


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_facts_are_those_of_the_mask_that_is_made(name: str):
    convention = CONVENTIONS[name]
    made = converted(MASKS["both"], name, HEADS)
    sizes = {"batch": BATCH, "query": QUERIES, "key": QUERIES, "1": 1, "batch * heads": BATCH * HEADS}
    assert made.shape == tuple(sizes[axis] for axis in convention.axes.strip("()").split(", "))
    assert str(made.dtype) == convention.dtype
    values = {"True": True, "False": False, "0": 0.0, "-inf": -np.inf}
    assert set(np.unique(made)) == {values[convention.hidden], values[convention.visible]}
    assert HIDDEN[convention.hidden] == values[convention.hidden]


def test_nn_multihead_attention_takes_both_masks_at_once():
    """What the page says of a decoder's mask: attn_mask for the future, key_padding_mask for the padding."""
    torch.manual_seed(7)
    inputs = [torch.randn(BATCH, QUERIES, HEADS * SIZE, dtype=torch.float64) for _ in range(3)]
    future = torch.from_numpy(converted(MASKS["causal"], "attn_2d"))
    padding = torch.from_numpy(converted(MASKS["padding"], "key_padding"))
    output, _ = torch_attention()(*inputs, attn_mask=future, key_padding_mask=padding)
    expected = by_hand(inputs, MASKS["both"])
    np.testing.assert_allclose(output.detach().numpy(), expected, atol=1e-9)


def test_what_a_picture_shows_is_a_part_of_the_tensor_itself():
    visible = MASKS["both"]
    for name in CONVENTIONS:
        made = converted(visible, name, HEADS)
        values, index = part_of(made, 2, name, HEADS)
        np.testing.assert_array_equal(values, eval(f"made{index}", {"made": made}).astype(float))
        shown = np.broadcast_to(values != HIDDEN[CONVENTIONS[name].hidden], (len(values), QUERIES))
        if index:
            np.testing.assert_array_equal(
                np.broadcast_to(shown, (QUERIES, QUERIES)), restored(made, name, 3, 5, HEADS)[2]
            )


def test_remarks_in_the_code_are_of_the_language():
    assert "# keys that no query may see" in conversion(VISIBLE, "key_padding")
    with speaking("zh"):
        assert "# 没有查询可见的键" in conversion(VISIBLE, "key_padding")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: converted(MASKS["both"], "numpy"), "convention='numpy'"),
        (lambda: conversion("numpy", "sdpa"), "convention='numpy'"),
        (lambda: conversion("sdpa", "visible"), "to 'visible'"),
    ],
)
def test_an_unknown_convention_is_refused(call: Any, message: str):
    with pytest.raises(InputError, match=message):
        call()
