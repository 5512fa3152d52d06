"""Masks in every convention: each shown line of code is run against the real call, and the outputs are compared."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from transformer.errors import CheckpointError, HeedmapError, InputError
from transformer.lessons.architectures.costs import EncoderCosts, costs_of, crossing
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
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given, number
from transformer.lessons.expressions.rowwise import Normalise
from transformer.lessons.masks import Batch
from transformer.lessons.positions import position_table, rotation, rotation_errors
from transformer.lessons.recipe import Recipe
from transformer.lessons.scaling import cosines, growth
from transformer.lessons.toy import toy_batch, toy_sentences
from transformer.messages import Message, speaking
from transformer.nn.encoder import Encoder
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig

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


TOKENS = 13


def transformer_config(**changes: object) -> Seq2SeqConfig:
    sizes: dict[str, object] = dict(
        source_vocab=31, target_vocab=29, d_model=14, n_heads=2, d_k=5, d_v=3, d_ff=11, n_encoder_layers=3,
        n_decoder_layers=1,
    )  # fmt: skip
    return Seq2SeqConfig(**(sizes | changes))  # type: ignore[arg-type]


def recurrent_config(**changes: object) -> RecurrentConfig:
    sizes: dict[str, object] = dict(source_vocab=31, target_vocab=29, hidden=7, d_embedding=5)
    return RecurrentConfig(**(sizes | changes))  # type: ignore[arg-type]


def counted(run: object, source: torch.Tensor) -> int:
    """Multiply-adds that PyTorch counts: half of its floating-point operations."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        run(source)  # type: ignore[operator]
    return counter.get_total_flops() // 2


def test_a_transformers_multiply_adds_are_those_that_pytorch_counts() -> None:
    model = Seq2Seq(transformer_config()).eval()
    costs = costs_of(model.config, "model")
    assert counted(model.encode, torch.randint(3, 29, (1, TOKENS))) == costs.layers * costs.multiply_adds(TOKENS)
    assert costs.layers == 3


LSTM = dict(cell="lstm", n_encoder_layers=2, bidirectional=True, copy_states=True, n_layers=3)


@pytest.mark.parametrize("changes", [{}, {"bidirectional": True}, {"bidirectional": True, "n_encoder_layers": 2}])
def test_a_recurrent_nets_multiply_adds_are_those_that_pytorch_counts(changes: dict[str, object]) -> None:
    model = Recurrent(recurrent_config(**changes)).eval()
    costs = costs_of(model.config, "model")
    found = counted(lambda ids: model.encoder(model.source_embedding(ids)), torch.randint(3, 29, (1, TOKENS)))
    assert found == costs.multiply_adds(TOKENS)


def test_the_formula_on_the_page_gives_the_same_number() -> None:
    for config in (
        transformer_config(),
        recurrent_config(),
        recurrent_config(bidirectional=True),
        recurrent_config(**LSTM),
    ):
        costs = costs_of(config, "model")
        written = (
            costs.formula.replace("·", "*")
            .replace("²", "**2")
            .replace("3n", "3*n")
            .replace("4n", "4*n")
            .replace(" n", "*n")
        )
        written = written.replace("+*n", "+ n*").replace("n (", "n*(").replace("n* (", "n*(")
        assert eval(written, {"n": TOKENS}) == costs.multiply_adds(TOKENS), written


def test_attention_joins_the_ends_at_once_and_recurrence_step_by_step() -> None:
    attention, recurrence = (costs_of(config, "model") for config in (transformer_config(), recurrent_config()))
    assert [attention.path_length(n) for n in (1, 2, TOKENS)] == [0, 1, 1]
    assert [recurrence.path_length(n) for n in (1, 2, TOKENS)] == [0, 1, 12]
    assert [attention.sequential_steps(n) for n in (1, TOKENS)] == [3, 3]
    assert [recurrence.sequential_steps(n) for n in (1, TOKENS)] == [1, 13]


@pytest.mark.parametrize(("square", "linear"), [(2, 3), (5, 7), (2, 400), (1, 100)])
def test_the_crossing_is_where_the_order_changes(square: int, linear: int) -> None:
    growing, steady = EncoderCosts(False, 1, square, linear, ""), EncoderCosts(True, 1, 0, 500, "")
    where = crossing(growing, steady)
    assert where == crossing(steady, growing)
    assert where is not None
    assert growing.multiply_adds(where) > steady.multiply_adds(where)
    assert growing.multiply_adds(where - 1) <= steady.multiply_adds(where - 1)


@pytest.mark.parametrize(("square", "linear"), [(0, 3), (2, 500), (2, 499), (7, 1000)])
def test_there_may_be_no_crossing(square: int, linear: int) -> None:
    first, second = EncoderCosts(False, 1, square, linear, ""), EncoderCosts(True, 1, 0, 500, "")
    assert crossing(first, second) is None


def test_other_models_are_refused() -> None:
    with pytest.raises(CheckpointError, match="no encoder-decoder"):
        costs_of(object(), "thing")
    assert not issubclass(Encoder, Seq2Seq)


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


def test_cosines_by_hand():
    q, k = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[6.0, 8.0], [-4.0, 3.0], [0.0, 2.0]])
    np.testing.assert_allclose(cosines(q, k), [[1.0, 0.0, 0.8], [np.nan] * 3])


BOARD = Board.of([Matrix("X", "X", "input", np.eye(2), ("1", "2"), ("1", "2"), Given())])


@pytest.mark.parametrize(
    ("refused", "english", "chinese"),
    [
        (lambda: toy_sentences(9), "n_tokens=9 is out of range: choose 1 to 8", "n_tokens=9 超出范围"),
        (lambda: toy_batch([""], ["x"]), "“” has 0 words: type 1 to 23 words a line, apart by spaces", "“” 有 0 个词"),
        (lambda: Batch.of([], [], 0), "the batch has 0 source sentences: type 1 to 4, one a line", "这一批有 0 个源句"),
        (lambda: Recipe(dropout=1.0), "dropout=1.0 is not a probability below 1: choose 0 to 0.9", "dropout=1.0 不是"),
        (lambda: Recipe(temperature=11.0), "temperature=11.0 is out of range: choose 0.1 to 10", "temperature=11.0 超"),
        (lambda: rotation(1, 3), "d_model=3 leaves a sine without its cosine: choose an even number", "d_model=3 使"),
        (lambda: position_table("paper", 0, 4), "length=0, d_model=4: choose up to 512 positions", "length=0"),
        (lambda: rotation_errors(np.eye(4), 4), "k=4 reaches past the table of 4 positions: choose 0 to 3", "k=4 超出"),
        (lambda: BOARD["Z"], "matrix='Z' is not on this board: choose one of X", "板上没有 matrix='Z'"),
        (
            lambda: BOARD.equation("X", 0, 2),
            "cell (0, 2) is not in X: choose rows 0 to 1, columns 0 to 1",
            "X 里没有格子 (0, 2)",
        ),
        (
            lambda: conversion("my", "sdpa"),
            "convention='my' to 'sdpa' is not known: choose visible or",
            "不认识从 'my'",
        ),
    ],
)
def test_a_refusal_is_said_in_both_languages(refused: Callable[[], object], english: str, chinese: str) -> None:
    with pytest.raises(HeedmapError) as caught:
        refused()
    message = caught.value.message
    assert isinstance(message, Message)
    assert str(message).startswith(english)
    assert message.in_language("zh").startswith(chinese)


def test_the_terms_of_an_equation_are_named_in_the_language_of_the_context() -> None:
    known = {"X": np.eye(2), "g": np.ones((1, 2)), "b": np.zeros((1, 2))}
    norm = Normalise("X", "g", "b", 1e-5, unbiased=False)
    names = [name for name, _ in norm.equation(0, 0, known).terms]
    with speaking("zh"):
        chinese = [name for name, _ in norm.equation(0, 0, known).terms]
        undefined = number(float("nan"))
    assert names == ["value", "row mean", "row deviation", "gain", "shift"]
    assert chinese == ["值", "行平均", "行标准差", "增益", "平移"]
    assert (undefined, number(float("nan"))) == (r"\text{无定义}", r"\text{undefined}")


def test_the_name_of_a_convention_that_is_no_api_is_translated() -> None:
    name = CONVENTIONS["additive"].api
    assert isinstance(name, Message)
    assert name.in_language("zh").startswith("加法式")
