"""Every stage of the attention lesson against torch in float64, and every equation against the number it explains."""

import math
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.attention.measures import entropy
from transformer.errors import ConfigError, InputError
from transformer.lessons.attention import attention_board
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.recipe import Recipe
from transformer.lessons.recurrent import recurrent_board
from transformer.lessons.sentences import Sentence
from transformer.lessons.toy import toy_recurrent, toy_sentences, toy_transformer
from transformer.nn.recurrent import Recurrent
from transformer.nn.recurrent_attention import AdditiveAttention
from transformer.nn.seq2seq import Seq2Seq, preset
from transformer.sites import Site

SOURCE = Sentence.of((3, 4, 5, 3, 6), ("a", "b", "c", "a", "d"))
TARGET = Sentence.of((1, 7, 8), ("<s>", "x", "y"))
SITES = ("encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.1.self", "decoder.0.cross", "decoder.1.cross")


def model(dialect: str = "torch", **options: Any) -> Seq2Seq:
    config = preset(
        dialect,
        source_vocab=11,
        target_vocab=11,
        d_model=14,
        n_heads=2,
        d_ff=13,
        n_encoder_layers=2,
        n_decoder_layers=2,
        max_length=17,
        **options,
    )
    made = Seq2Seq(config).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


def tensor(board: Board, name: str) -> Tensor:
    return torch.from_numpy(board[name].values)


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def residual_output(made: Seq2Seq, site: str, target: Sentence = TARGET) -> Tensor:
    """What the model itself computes at the end of the site's residual."""
    at = Site(site)
    residual = getattr(getattr(made, at.stack)[at.layer], f"{at.kind}_residual")
    seen: list[Tensor] = []
    handle = residual.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        made(torch.tensor([SOURCE.ids]), torch.tensor([target.ids]))
    handle.remove()
    return seen[0][0]


@pytest.mark.parametrize(("dialect", "site"), list(product(("torch", "annotated", "jadore"), SITES)))
def test_the_last_matrix_is_what_the_layer_itself_hands_on(dialect: str, site: str):
    made = model(dialect)
    board = attention_board(made, SOURCE, TARGET, site)
    last = list(board)[-1]
    same(tensor(board, last), residual_output(made, site))


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(("pad_id", "target_pad"), [(7, 9), (9, 7)])
def test_a_target_is_masked_by_its_own_padding(pad_id: int, target_pad: int, site: str):
    """What pads sources may be a word of a target, and the other way round."""
    made, target = model(pad_id=pad_id, target_pad_id=target_pad), Sentence.of((1, 7, 8, 9), ("<s>", "x", "y", "z"))
    board = attention_board(made, SOURCE, target, site)
    same(tensor(board, list(board)[-1]), residual_output(made, site, target))


@pytest.mark.parametrize("site", SITES)
def test_every_stage_equals_torch(site: str):
    made = model()
    board = attention_board(made, SOURCE, TARGET, site)
    at = Site(site)
    stack, kind = at.stack, at.kind
    attention = getattr(getattr(made, stack)[at.layer], f"{kind}_attention")
    asking, answering = tensor(board, "X"), tensor(board, "H" if kind == "cross" else "X")
    hidden = torch.ones(3, 3).triu(1).bool() if (stack, kind) == ("decoder", "self") else None
    for head in range(2):
        part = slice(7 * head, 7 * head + 7)
        q, k, v = (
            F.linear(x, linear.weight[part], linear.bias[part])
            for x, linear in ((asking, attention.query), (answering, attention.key), (answering, attention.value))
        )
        for name, expected in (("Q", q), ("K", k), ("V", v), ("S", q @ k.T), ("D", q @ k.T / math.sqrt(7))):
            same(tensor(board, f"{name}{head}"), expected)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=None if hidden is None else ~hidden)
        same(tensor(board, f"Z{head}"), mixed)
    in_weights = torch.cat([attention.query.weight, attention.key.weight, attention.value.weight])
    in_biases = torch.cat([attention.query.bias, attention.key.bias, attention.value.bias])
    output, weights = F.multi_head_attention_forward(
        asking[:, None], answering[:, None], answering[:, None], 14, 2, in_weights, in_biases, None, None, False, 0.0,
        attention.output.weight, attention.output.bias, attn_mask=hidden, average_attn_weights=False,
    )  # fmt: skip
    assert weights is not None
    for head in range(2):
        same(tensor(board, f"A{head}"), weights[0, head])
    same(tensor(board, "O"), output[:, 0])
    same(tensor(board, "R"), asking + output[:, 0])
    norm = getattr(getattr(made, stack)[at.layer], f"{kind}_residual").norm
    normed = F.layer_norm(asking + output[:, 0], (14,), norm.weight, norm.bias)
    same(tensor(board, "Y"), normed)


RECIPES = (
    Recipe(scaled=False),
    Recipe(temperature=0.5),
    Recipe(temperature=3.0, scaled=False, scale_first=False, hiding="large"),
    Recipe(n_heads=1),
    Recipe(scale_first=False, hiding="large"),
    Recipe(dropout=0.4, seed=2),
    Recipe(blind=1, hiding="large"),
    Recipe(blind=1, hiding="infinity"),
    Recipe(blind=0),
)
CASES = [
    *zip(("torch", "annotated", "jadore"), ("encoder.0.self", "decoder.1.cross", "decoder.0.self"), strict=True),
    *(("torch", recipe) for recipe in RECIPES),
    *(("recurrent", kind) for kind in ("additive", "location")),
]


def board_of(kind: str, what: Any) -> Board:
    """A board of every kind: a dialect's site, a recipe, a recurrent attention."""
    if kind == "recurrent":
        return recurrent_board(toy_recurrent(3, what, 1), *toy_sentences(3), step=2)
    if isinstance(what, Recipe):
        return attention_board(model(kind), SOURCE, TARGET, "decoder.0.self", what)
    return attention_board(model(kind), SOURCE, TARGET, what)


@pytest.mark.parametrize(("kind", "what"), CASES)
def test_the_highlight_is_exactly_what_the_cell_depends_on(kind: str, what: str | Recipe):
    """A cell lights another one if and only if that one lights it from the other end."""
    board = board_of(kind, what)
    for name, matrix in board.items():
        row, column = matrix.values.shape[0] - 1, matrix.values.shape[1] // 2
        light = board.highlight(name, row, column)
        assert set(light.sources) <= set(matrix.operation.operands)
        for source, cells in light.sources.items():
            for r, c in np.argwhere(cells)[:2]:
                assert board.highlight(source, int(r), int(c)).targets[name][row, column]
        for target, cells in light.further_targets.items():
            r, c = np.argwhere(cells)[0]
            back = board.highlight(target, int(r), int(c))
            reached = back.sources.get(name, False) | back.further_sources.get(name, np.zeros((1, 1), bool))
            assert np.broadcast_to(reached, matrix.values.shape)[row, column]


def test_a_score_comes_from_one_query_and_one_key_and_goes_to_its_row():
    source, target = toy_sentences(4)
    board = attention_board(toy_transformer(6, 2, seed=1), source, target, "encoder.0.self")
    light = board.highlight("S1", 2, 3)
    assert set(light.sources) == {"Q1", "K1"}
    assert light.sources["Q1"].nonzero()[0].tolist() == [2, 2, 2]
    assert light.sources["K1"].nonzero()[0].tolist() == [3, 3, 3]
    assert np.argwhere(light.targets["D1"]).tolist() == [[2, 3]]
    assert np.argwhere(light.further_targets["A1"]).tolist() == [[2, 0], [2, 1], [2, 2], [2, 3]]
    assert "S0" not in light.further_targets
    assert light.further_sources["W_Q1"].all()


def test_hidden_scores_go_nowhere():
    source, target = toy_sentences(3)
    board = attention_board(toy_transformer(4, 1, seed=0), source, target, "decoder.0.self")
    assert np.isneginf(board["M0"].values[0, 1])
    assert board["A0"].values[0, 1] == 0
    assert set(board.highlight("D0", 0, 1).targets) == set()
    assert board.equation("M0", 0, 1).latex == r"S''_0[0,1] = -\infty"


def test_other_numbers_of_heads_use_the_same_parameters():
    made = model()
    one = attention_board(made, SOURCE, TARGET, "encoder.0.self", Recipe(n_heads=1))
    two = attention_board(made, SOURCE, TARGET, "encoder.0.self")
    np.testing.assert_array_equal(one["W_Q0"].values, np.concatenate([two["W_Q0"].values, two["W_Q1"].values], axis=1))
    np.testing.assert_allclose(one["S0"].values, two["S0"].values + two["S1"].values, atol=1e-12)
    q, k, v = (tensor(one, f"{name}0") for name in "QKV")
    same(tensor(one, "Z0"), F.scaled_dot_product_attention(q, k, v))


def test_the_library_row_that_sees_nothing_is_what_the_fused_attention_returns():
    board = attention_board(model(), SOURCE, TARGET, "decoder.0.self", Recipe(blind=1))
    visible = torch.ones(3, 3).tril().bool()
    visible[1] = False
    q, k, v = (tensor(board, f"{name}0") for name in "QKV")
    same(tensor(board, "Z0"), F.scaled_dot_product_attention(q, k, v, attn_mask=visible))


def states_of(made: Recurrent, step: int, source: Sentence, target: Sentence) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embedding, state, source states and weights of one step, as the model's attention meets them."""
    seen: list[tuple[Any, ...]] = []
    handle = made.attention.register_forward_hook(lambda module, inputs, output: seen.append((*inputs, output[1])))
    with torch.no_grad():
        made(torch.tensor([source.ids]), torch.tensor([target.ids]))
    handle.remove()
    embedded, state, read, weights = seen[step]
    return embedded, state, read.states, weights[0, 0]


@pytest.mark.parametrize("kind", ["additive", "location"])
def test_recurrent_attention_equals_torch(kind: Literal["additive", "location"]):
    made = toy_recurrent(5, kind, seed=3)
    source, target = toy_sentences(4)
    board = recurrent_board(made, source, target, 2)
    embedded, state, states, weights = states_of(made, 2, source, target)
    if isinstance(made.attention, AdditiveAttention):
        met = torch.tanh(F.linear(state, made.attention.query.weight) + F.linear(states[0], made.attention.key.weight))
        scores = F.linear(met, made.attention.score.weight).T
        same(tensor(board, "T"), met)
    else:
        scores = F.linear(torch.cat([embedded, state], dim=1), made.attention.where.weight)
    same(tensor(board, "S"), scores)
    same(tensor(board, "A"), scores.softmax(-1))
    same(tensor(board, "A"), weights)
    same(tensor(board, "Z"), scores.softmax(-1) @ states[0])


@pytest.mark.parametrize("d_model", [4, 8, 12, 16])
def test_the_scale_of_a_toy_of_any_width_can_be_seen(d_model: int):
    """Without sqrt(d_k) the rows sharpen, and with it they still hesitate, for most seeds."""
    spread = []
    for seed in range(7):
        made = toy_transformer(d_model, 1, seed)
        boards = (attention_board(made, *toy_sentences(4), "encoder.0.self", Recipe(scaled=on)) for on in (True, False))
        spread.append([entropy(board["A0"].values).mean() for board in boards])
    scaled, plain = np.median(spread, axis=0)
    assert scaled > 0.4
    assert scaled - plain > 0.1


@pytest.mark.parametrize(("width", "step", "most"), [(4, 0.5, 1.0), (8, 0.25, 0.5), (16, 0.2, 0.4)])
def test_toys_can_be_written_down(width: int, step: float, most: float):
    matrices = [p / step for p in toy_transformer(width, 2, seed=5).parameters() if p.dim() > 1]
    assert all(
        torch.allclose(p, p.round(), atol=1e-6) and bool((p.abs() <= most / step + 1e-6).all()) for p in matrices
    )


def test_toys_are_drawn_from_their_seed():
    made = toy_transformer(4, 2, seed=5)
    again = toy_transformer(4, 2, seed=5)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), again.parameters(), strict=True))
    assert not torch.equal(made.source_embedding.weight, toy_transformer(4, 2, seed=6).source_embedding.weight)


def test_the_lesson_leaves_the_model_as_it_was():
    made = model().float()
    before = [p.clone() for p in made.parameters()]
    attention_board(made, SOURCE, TARGET, "encoder.0.self", Recipe(n_heads=1, scaled=False))
    assert made.encoder[0].self_attention.n_heads == 2
    assert all(p.dtype == torch.float32 and torch.equal(p, b) for p, b in zip(made.parameters(), before, strict=True))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in made.modules())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_board(model(), SOURCE, TARGET, "encoder.9.self"), "site='encoder.9.self'"),
        (lambda: attention_board(model(), Sentence.of((), ()), TARGET, "encoder.0.self"), "no token"),
        (lambda: attention_board(model(), SOURCE, TARGET, "encoder.0.self", Recipe(n_heads=3)), "n_heads=3"),
        (lambda: attention_board(model(), SOURCE, TARGET, "encoder.0.self", Recipe(blind=5)), "blind=5"),
        (lambda: Recipe(dropout=1.0), "dropout=1.0"),
        (lambda: Recipe(temperature=0.0), "temperature=0.0"),
        (lambda: Recipe(temperature=math.nan), "temperature=nan"),
        (lambda: Recipe(n_heads=-1), "n_heads=-1"),
        (lambda: toy_transformer(17, 1, 0), "d_model=17"),
        (lambda: toy_transformer(5, 2, 0), "d_model=5"),
        (lambda: toy_sentences(0), "n_tokens=0"),
        (lambda: toy_recurrent(99, "additive", 0), "hidden=99"),
        (lambda: recurrent_board(toy_recurrent(3, "additive", 0), *toy_sentences(2), step=2), "step=2"),
        (lambda: Matrix("A", "A", "input", np.zeros((2, 3)), ("a",), ("b",), Given()), r"shape \(2, 3\)"),
        (lambda: attention_board(model(), SOURCE, TARGET, "encoder.0.self").equation("A0", 5, 0), r"cell \(5, 0\)"),
        (lambda: attention_board(model(), SOURCE, TARGET, "encoder.0.self")["nothing"], "matrix='nothing'"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(call, message: str):
    with pytest.raises((ConfigError, InputError), match=message):
        call()
