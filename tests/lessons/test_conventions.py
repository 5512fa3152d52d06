"""Masks in every convention and nn.MultiheadAttention: each shown line of code is run, and the results are compared."""

import math
import re
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from heedmap.errors import CheckpointError
from heedmap.lessons import conventions as lesson
from heedmap.lessons.attention import growth
from heedmap.lessons.costs import EncoderCosts, costs_of, crossing
from heedmap.lessons.operations import number
from heedmap.lessons.operations import product as product_of
from heedmap.messages import Message, speaking
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.nn.stacks import Encoder, EncoderConfig

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


def annotated_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The Annotated Transformer's MultiHeadedAttention, its projections left out."""
    query, key, value = (x.view(BATCH, -1, HEADS, SIZE).transpose(1, 2) for x in (query, key, value))
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(SIZE)
    weights = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9).softmax(dim=-1)
    return torch.matmul(weights, value).transpose(1, 2).contiguous().view(BATCH, -1, HEADS * SIZE)


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
    attention = annotated_attention if wanted.startswith("annotated") else torch_attention()
    return {
        **dict(zip("qkv", inputs, strict=True)), "torch": torch, "F": F, "n_heads": HEADS, "n_queries": QUERIES,
        "n_batch": BATCH, "attention": attention,
    }  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
def test_every_conversion_runs_and_the_real_call_gives_attention_by_its_definition(name: str):
    torch.manual_seed(5)
    inputs = [torch.randn(BATCH, QUERIES, HEADS * SIZE, dtype=torch.float64) for _ in range(3)]
    visible = MASKS[name]
    expected = by_hand(inputs, visible)
    able = [one for one in lesson.CONVENTIONS if one not in CANNOT[name]]
    for given, wanted in product([lesson.VISIBLE, *able], able):
        space = space_of(wanted, inputs)
        start = visible if given == lesson.VISIBLE else lesson.converted(visible, given, HEADS)
        space["visible" if given == lesson.VISIBLE else "mask"] = torch.from_numpy(np.array(start))
        if wanted == "additive":
            space |= {x: space[x].float() for x in "qkv"}  # a mask of float32 is for such queries and keys
        exec(lesson.conversion(given, wanted), space)
        np.testing.assert_array_equal(space["visible"].numpy(), visible)
        np.testing.assert_array_equal(space["mask"].numpy(), lesson.converted(visible, wanted, HEADS))
        output = space["output"]
        if wanted in {"sdpa", "additive"}:
            output = output.transpose(1, 2).reshape(BATCH, QUERIES, -1)
        tolerance = 1e-6 if wanted == "additive" else 1e-9
        np.testing.assert_allclose(output.detach().numpy(), expected, atol=tolerance, err_msg=f"{given} to {wanted}")


@pytest.mark.parametrize("name", lesson.CONVENTIONS)
def test_the_facts_are_those_of_the_mask_that_is_made_and_its_picture_is_a_part_of_it(name: str):
    assert {mask for mask, visible in MASKS.items() if not lesson.holds(visible, name)} == {
        mask for mask, unable in CANNOT.items() if name in unable
    }
    convention, made = lesson.CONVENTIONS[name], lesson.converted(MASKS["both"], name, HEADS)
    sizes = {"batch": BATCH, "query": QUERIES, "key": QUERIES, "1": 1, "batch * heads": BATCH * HEADS}
    assert made.shape == tuple(sizes[axis] for axis in convention.axes.strip("()").split(", "))
    assert str(made.dtype) == convention.dtype
    values = {"True": True, "False": False, "0": 0.0, "-inf": -np.inf}
    assert set(np.unique(made)) == {values[convention.hidden], values[convention.visible]}
    assert lesson.HIDDEN[convention.hidden] == values[convention.hidden]
    able = next(mask for mask in ("both", "padding", "causal") if name not in CANNOT[mask])
    made = lesson.converted(MASKS[able], name, HEADS)
    drawn, index = lesson.part_of(made, 2, name, HEADS)
    np.testing.assert_array_equal(drawn, eval(f"made{index}", {"made": made}).astype(float))
    if index:
        shown = np.broadcast_to(drawn != lesson.HIDDEN[convention.hidden], (QUERIES, QUERIES))
        np.testing.assert_array_equal(shown, MASKS[able][2])


def test_nn_multihead_attention_takes_both_masks_at_once():
    """What the page says of a decoder's mask: attn_mask for the future, key_padding_mask for the padding."""
    torch.manual_seed(7)
    inputs = [torch.randn(BATCH, QUERIES, HEADS * SIZE, dtype=torch.float64) for _ in range(3)]
    future = torch.from_numpy(lesson.converted(MASKS["causal"], "attn_2d"))
    padding = torch.from_numpy(lesson.converted(MASKS["padding"], "key_padding"))
    output, _ = torch_attention()(*inputs, attn_mask=future, key_padding_mask=padding)
    expected = by_hand(inputs, MASKS["both"])
    np.testing.assert_allclose(output.detach().numpy(), expected, atol=1e-9)


def test_remarks_terms_and_names_are_of_the_language_of_the_context():
    made, known = product_of("X", "X", bias="b"), {"X": np.eye(2), "b": np.zeros((1, 2))}

    def said() -> list[str]:
        term = made.equation(0, 0, known).terms[-1][0]
        return [lesson.conversion(lesson.VISIBLE, "key_padding").partition("# ")[2], term, number(float("nan"))]

    assert [one.partition("\n")[0] for one in said()] == ["keys that no query may see", "bias", r"\text{undefined}"]
    with speaking("zh"):
        assert [one.partition("\n")[0] for one in said()] == ["没有查询可见的键", "偏置", r"\text{无定义}"]
    name = lesson.CONVENTIONS["additive"].api
    assert isinstance(name, Message)
    assert name.in_language("zh").startswith("加法式")


AXES = {
    "batch": lesson.BATCH, "query": lesson.QUERIES, "key": lesson.KEYS, "d_model": lesson.WIDTH, "heads": lesson.HEADS,
    "d_head": lesson.WIDTH // lesson.HEADS, "3 * d_model": 3 * lesson.WIDTH, "key + 1": lesson.KEYS + 1,
    "batch * heads": lesson.BATCH * lesson.HEADS,
}  # fmt: skip
CALLS = [
    lesson.Call(mask, batch_first, weights != "none", weights == "mean", more)
    for mask, batch_first, weights, more in product(lesson.MASKS, (True, False), ("mean", "heads", "none"), lesson.MORE)
]


def test_the_code_gives_the_shapes_and_the_weights_that_are_shown():
    for call in CALLS:
        space: dict[str, Any] = {"torch": torch, "nn": nn}
        torch.manual_seed(0)
        exec(call.code, space)
        shapes, weights = lesson.called(call)
        assert (weights is None) == (not call.need_weights) == (space["weights"] is None)
        if weights is not None:
            torch.testing.assert_close(weights, space["weights"].detach())
        for name, axes, sizes, dtype in shapes:
            assert sizes == tuple(AXES[axis] for axis in axes.strip("()").split(", ")), (call, name)
            if name == lesson.PER_HEAD:
                continue
            given = {"key_padding_mask": "mask", "attn_mask": "mask"}.get(name, name)
            made = space[given] if given in space else space["attention"].get_parameter(name)
            assert (tuple(made.shape), str(made.dtype)) == (sizes, f"torch.{dtype}"), (call, name)
        mask = {"none": set(), "key_padding": {"key_padding_mask"}}.get(call.mask, {"attn_mask"})
        assert mask == {shape.name for shape in shapes} & {"key_padding_mask", "attn_mask"}


def test_each_mask_of_a_decoder_cuts_off_its_own_words():
    """By the masks themselves: an output changes with each word that some way leads from, its own residual included."""
    moved = {name: found for name, _, _, found in lesson.decoder_arguments()}
    queries, keys = range(lesson.QUERIES), range(lesson.KEYS)
    assert moved["tgt_mask"] == tuple(sum(i >= j for i in queries) for j in queries)
    assert moved["tgt_key_padding_mask"] == (lesson.QUERIES,) * (lesson.QUERIES - 1) + (1,)
    assert moved["memory_mask"] == tuple(sum(j <= i for i in queries) for j in keys)
    assert moved["memory_key_padding_mask"] == (lesson.QUERIES,) * (lesson.KEYS - 2) + (0, 0)


def test_returned_weights_are_the_mean_over_heads_and_a_key_more_is_the_last_one_that_no_mask_hides():
    mean, heads = (lesson.called(lesson.Call("attn_3d", average=average))[1] for average in (True, False))
    assert heads.shape == (lesson.BATCH, lesson.HEADS, lesson.QUERIES, lesson.KEYS)
    torch.testing.assert_close(heads.mean(1), mean)
    assert not heads[:, :, torch.ones(lesson.QUERIES, lesson.KEYS, dtype=torch.bool).triu(1)].any()
    assert not heads[1, :, :, lesson.KEYS - 2 :].any()
    for more in lesson.MORE[1:]:
        _, weights = lesson.called(lesson.Call("key_padding", average=False, more=more))
        assert weights.shape[-1] == lesson.KEYS + 1
        assert (weights[1, :, :, lesson.KEYS - 2 : lesson.KEYS] == 0).all()
        assert (weights[..., lesson.KEYS] > 0).all()


def test_fills_are_executed_in_every_type():
    found = {(dtype, fill): (one, every) for dtype, fill, one, every in lesson.fills()}
    assert set(found) == set(product(lesson.DTYPES, lesson.FILLS))
    assert found["float16", "-1e9"] == (None, None)
    for dtype in lesson.DTYPES:
        assert found[dtype, "-inf"][1] == ["NaN"] * 3
        one, every = found[dtype, "torch.finfo(dtype).min"]
        assert one[2] == "0"
        assert [float(weight) for weight in every] == pytest.approx([1 / 3] * 3, abs=2e-3)
    assert found["float64", "-1e9"][0] == [f"{1 / (1 + torch.e):.3g}", f"{torch.e / (1 + torch.e):.3g}", "0"]


def test_a_row_that_sees_nothing_and_the_hint_alone_are_what_this_pytorch_makes_of_them():
    attention = nn.MultiheadAttention(lesson.WIDTH, lesson.HEADS, batch_first=True)
    x, hidden = torch.randn(1, lesson.KEYS, lesson.WIDTH), torch.ones(1, lesson.KEYS, dtype=torch.bool)
    assert [need_weights for need_weights, _, _ in lesson.blind_rows()] == [True, False]
    for need_weights, said, weights in lesson.blind_rows():
        output, _ = attention(x, x, x, key_padding_mask=hidden, need_weights=need_weights)
        assert said == ("NaN" if bool(output.isnan().all()) else "0" if not bool(output.any()) else said)
        assert weights == ("NaN" if need_weights else "")
    with nullcontext() if lesson.causal_alone() else pytest.raises(RuntimeError, match="attn_mask"):
        attention(x, x, x, is_causal=True)


TOKENS = 13


def transformer() -> Seq2Seq:
    sizes: dict[str, Any] = dict(d_model=14, n_heads=2, d_k=5, d_v=3, d_ff=11, n_encoder_layers=3, n_decoder_layers=1)
    return Seq2Seq(Seq2SeqConfig.of(source_vocab=31, target_vocab=29, **sizes)).eval()


def recurrent(**changes: Any) -> Recurrent:
    return Recurrent(RecurrentConfig.of(source_vocab=31, target_vocab=29, hidden=7, d_embedding=5, **changes)).eval()


LSTM = dict(cell="lstm", n_encoder_layers=2, bidirectional=True, copy_states=True, n_layers=3)
MODELS = [transformer, *(partial(recurrent, **changes) for changes in (
    {}, {"bidirectional": True}, {"bidirectional": True, "n_encoder_layers": 2}, LSTM
))]  # fmt: skip


@pytest.mark.parametrize("made", MODELS)
def test_multiply_adds_are_those_that_pytorch_counts_and_the_formula_on_the_page_gives_them(made: Any) -> None:
    """Half of the floating-point operations; PyTorch does not count those of an LSTM."""
    model, source = made(), torch.randint(3, 29, (1, TOKENS))
    costs = costs_of(model, "model")
    formula = re.sub(r"(?<=[\dn]) ?(?=n|\()", "*", costs.formula.replace("·", "*").replace("²", "**2"))
    assert eval(formula, {"n": TOKENS}) == costs.multiply_adds(TOKENS), formula
    if getattr(model.config, "cell", "gru") == "lstm":
        return
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model.encode(source) if isinstance(model, Seq2Seq) else model.encoder(model.source_embedding(source))
    layers = costs.layers if isinstance(model, Seq2Seq) else 1
    assert counter.get_total_flops() // 2 == layers * costs.multiply_adds(TOKENS)


def test_attention_joins_the_ends_at_once_and_recurrence_step_by_step() -> None:
    attention, recurrence = (costs_of(model, "model") for model in (transformer(), recurrent()))
    assert [attention.path_length(n) for n in (1, 2, TOKENS)] == [0, 1, 1]
    assert [recurrence.path_length(n) for n in (1, 2, TOKENS)] == [0, 1, 12]
    assert [attention.sequential_steps(n) for n in (1, TOKENS)] == [3, 3]
    assert [recurrence.sequential_steps(n) for n in (1, TOKENS)] == [1, 13]
    with pytest.raises(CheckpointError, match="no encoder-decoder"):
        costs_of(Encoder(EncoderConfig.of(vocab=5, d_model=4, n_heads=2)), "thing")


@pytest.mark.parametrize(
    ("square", "linear"), [(2, 3), (5, 7), (2, 400), (1, 100), (0, 3), (2, 500), (2, 499), (7, 1000)]
)
def test_the_crossing_is_where_the_order_changes_if_it_does(square: int, linear: int) -> None:
    growing, steady = EncoderCosts(False, 1, square, linear, ""), EncoderCosts(True, 1, 0, 500, "")
    where = crossing(growing, steady)
    assert where == crossing(steady, growing)
    dearer = [growing.multiply_adds(n) > steady.multiply_adds(n) for n in range(1, 600)]
    assert where == (dearer.index(True) + 1 if True in dearer and not dearer[0] else None)


def test_variance_grows_as_the_size_and_the_gradient_vanishes_without_the_root():
    found = growth((1, 8, 64, 256), seed=3)
    np.testing.assert_array_equal(found.variance, [[1, 8, 64, 256], [1, 1, 1, 1]])
    np.testing.assert_allclose(found.measured_variance, found.variance, rtol=0.15)
    np.testing.assert_allclose(found.measured_gradient, found.gradient, rtol=0, atol=1e-12)
    plain, scaled = found.gradient
    assert plain[-1] < 0.25 * scaled[-1]
    assert (np.diff(plain[1:]) < 0).all()
    assert (found.gradient <= 0.25).all()
    assert plain[0] == pytest.approx(scaled[0])
