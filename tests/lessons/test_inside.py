"""The lesson "Inside a layer": every formula against its board, every board against NumPy and the paper, in float64.

And one notation for all lessons: every symbol stands for one matrix on all their boards.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from math import erf
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.lessons import inside
from heedmap.lessons.attention import Recipe, attention_board, recurrent_board
from heedmap.lessons.board import Board
from heedmap.lessons.run import Run, in_float64
from heedmap.lessons.sentences import toy_layers, toy_recurrent, toy_sentences, toy_transformer, toy_words
from heedmap.nn.blocks import norm_kind
from heedmap.nn.seq2seq import Seq2Seq, preset
from heedmap.nn.stacks import Encoder, EncoderConfig
from tests.imports import ROOT
from tests.lessons.test_formulas import EVERY, SIZES, SOURCE, TARGET, check, shaken
from ui.components.matrices.component import readable


def words(ids: Any) -> list[str]:
    return [f"w{i}" for i in ids]


@cache
def run(name: str) -> Run:
    """A run of each dialect, of toys, of an encoder alone."""
    torch.manual_seed(3)
    if name.startswith("toy"):
        model = toy_layers(6, 2, norm_first="first" in name, gelu="gelu" in name, tied="tied" in name)
        return Run(model, *toy_sentences(4), lambda ids: [toy_words()[i] for i in ids])
    if name.startswith("encoder"):
        kind = name.removeprefix("encoder").strip()
        encoder = EncoderConfig.of(
            vocab=11, d_model=6, n_heads=2, d_ff=5, n_layers=2, max_length=13, head=(7, 3) if kind else (),
            norm_first=kind == "first", scale_embedding=kind == "scaled",
            position_axis="batch" if kind == "batch" else "sequence", activation="gelu" if kind else "gelu_tanh",
        )  # fmt: skip
        return Run(in_float64(shaken(Encoder(encoder))), SOURCE, None, words)
    dialect, *first = name.split()
    sizes = SIZES | dict(source_vocab=17, target_vocab=17)
    return Run(in_float64(shaken(Seq2Seq(preset(dialect, **sizes, norm_first=bool(first))))), SOURCE, TARGET, words)


RUNS = [
    "toy", "toy first gelu tied", "torch", "torch first", "annotated first", "annotated", "jadore", "encoder",
    "encoder first", "encoder scaled", "encoder batch",
]  # fmt: skip


def places(one: Run) -> Iterator[tuple[str, int, str]]:
    for stack in one.stacks:
        for part in one.parts(stack):
            yield stack, one.n_layers(stack) - 1, part


def boards(one: Run) -> Iterator[Board]:
    """Every board of a run, of the last layers."""
    for stack in one.stacks:
        yield inside.embedding_board(one, stack)
        yield inside.feed_forward_board(one, stack, one.n_layers(stack) - 1)
    for place in places(one):
        yield inside.residual_board(one, *place)
        yield inside.norm_board(one, *place)
        yield inside.order_board(one, *place)
    if inside.positions_of(one):
        yield inside.output_board(one, len(inside.positions_of(one)) - 1)


@pytest.mark.parametrize("name", RUNS)
def test_every_formula_gives_the_board_s_numbers(name: str):
    for board in boards(run(name)):
        check(board, EVERY, 1, set())
        for name_of, matrix in board.items():
            for latex in (*board.formulas(name_of), board.equation(name_of, 0, 0).latex, matrix.symbol):
                assert not set(readable(latex)) & set("\\{}"), "in plain characters, for saved pictures and files"
            board.highlight(name_of, 0, 0)


def weights(module: torch.nn.Module) -> list[np.ndarray]:
    return [parameter.detach().numpy() for parameter in module.parameters()]


def layer_norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray, eps: float, kind: str) -> np.ndarray:
    """The three published norms, written down from their sources."""
    n = x.shape[1]
    if kind == "rms":
        return gain * x / np.sqrt((x**2).sum(1, keepdims=True) / n + eps)
    centred = x - x.sum(1, keepdims=True) / n
    squares = (centred**2).sum(1, keepdims=True)
    below = np.sqrt(squares / (n - 1)) + eps if kind == "annotated" else np.sqrt(squares / n + eps)
    return gain * centred / below + shift


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


RESULTS = {"torch": "Y", "annotated": "Ya", "rms": "Yr"}


@pytest.mark.parametrize("name", ["toy", "annotated", "annotated first", "torch", "encoder first"])
def test_every_form_of_the_norm_is_that_of_its_source_and_the_own_one_is_what_ran(name: str):
    one = run(name)
    for place in places(one):
        board, sub = inside.norm_board(one, *place), one.sub_layer(*place)
        gain, shift = weights(sub.residual.norm)
        eps: Any = sub.residual.norm.eps
        for kind, result in RESULTS.items():
            close(board[result].values, layer_norm(board["X"].values, gain, shift, eps, kind))
        own = norm_kind(sub.residual.norm)
        assert own == ("annotated" if "annotated" in name else "torch")
        x, found = sub.x[None], sub.found[None]
        ran = sub.residual.reads(x) if sub.residual.norm_first else sub.residual(x, found)
        close(board[RESULTS[own]].values, ran[0].detach().numpy())


@pytest.mark.parametrize("name", ["torch", "torch first", "encoder first", "encoder scaled"])
def test_either_order_is_worked_out_with_the_same_weights_and_the_own_one_is_what_ran(name: str):
    one = run(name)
    stack = one.stacks[-1]
    board = inside.order_board(one, stack, 1, "feed_forward")
    sub = one.sub_layer(stack, 1, "feed_forward")
    net, _ = one.feed_forward(stack, 1)
    up, up_bias, down, down_bias = weights(net)
    gain, shift = weights(sub.residual.norm)

    def fed(x: np.ndarray) -> np.ndarray:
        wide = x @ up.T + up_bias
        bent = np.vectorize(lambda a: a / 2 * (1 + erf(a / 2**0.5)))(wide) if "encoder" in name else wide.clip(0)
        return bent @ down.T + down_bias

    x = sub.x.numpy()
    close(board["Y"].values, layer_norm(x + fed(x), gain, shift, 1e-5, "torch"))
    close(board["Z"].values, x + fed(layer_norm(x, gain, shift, 1e-5, "torch")))
    ran = sub.residual(sub.x[None], sub.found[None])[0].detach().numpy()
    close(board["Z" if sub.residual.norm_first else "Y"].values, ran)
    fed_board = inside.feed_forward_board(one, stack, 1)
    close(fed_board["F"].values, sub.found.numpy())
    np.testing.assert_array_equal(fed_board["on"].values[:, 0], (fed_board["A"].values > 0).mean(1))


@pytest.mark.parametrize("name", ["torch", "torch first", "jadore", "encoder first"])
def test_what_one_sub_layer_hands_on_is_what_the_next_one_gets(name: str):
    one = run(name)
    for stack in one.stacks:
        close(inside.embedding_board(one, stack)["X"].values, one.sub_layer(stack, 0, "self").x.numpy())
        parts = [(layer, part) for layer in range(2) for part in one.parts(stack)]
        for (layer, part), (next_layer, following) in pairwise(parts):
            norm = one.sub_layer(stack, layer, part).residual
            name_of = "Z" if norm.norm_first else "Y"
            handed = inside.order_board(one, stack, layer, part)[name_of].values
            close(handed, one.sub_layer(stack, next_layer, following).x.numpy())
            if norm.norm_first:
                close(inside.residual_board(one, stack, layer, part)["R"].values, handed)


@pytest.mark.parametrize("name", ["torch", "jadore", "encoder scaled"])
def test_the_share_of_the_positions_is_told_with_the_scale_and_without(name: str):
    one = run(name)
    board = inside.embedding_board(one, "encoder")
    e, p = board["E"].values, board["P"].values
    with_root = (p**2).sum(1) / ((p**2).sum(1) + 6 * (e**2).sum(1))
    without = (p**2).sum(1) / ((p**2).sum(1) + (e**2).sum(1))
    own, other = (with_root, without) if one.model.config.scale_embedding else (without, with_root)
    close(board["g"].values[:, 0], own)
    close(board["gU"].values[:, 0], other)
    assert (name == "jadore") == (not one.model.config.scale_embedding)


@pytest.mark.parametrize("name", ["toy tied", "torch", "annotated first", "jadore"])
def test_the_output_is_that_of_the_model_over_its_whole_vocabulary(name: str):
    one = run(name)
    assert inside.is_tied(one) == (name in {"toy tied", "jadore"})
    assert isinstance(one.model, Seq2Seq)
    source, target = (torch.tensor([one.sentences[stack].ids]) for stack in ("encoder", "decoder"))
    with torch.no_grad():
        logits = one.model(source, target)[0].numpy()
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert inside.positions_of(one) == one.labels("decoder")
    for position, row in enumerate(logits):
        board = inside.output_board(one, position)
        best = np.argsort(-row)[:10]
        close(board["l"].values[0], expected[position][best])
        close(board["p"].values[0], np.exp(expected[position][best]))
        assert board["p"].columns[0] == one.words([int(best[0])])[0]
        assert "r" in board, "the other words"


def test_an_encoder_with_a_head_ends_with_an_output_a_position_and_one_alone_with_none():
    assert len(inside.positions_of(run("encoder first"))) == 4
    assert inside.positions_of(run("encoder")) == ()
    board = inside.output_board(run("encoder first"), 3)
    assert "r" not in board
    assert board["p"].values.sum() == pytest.approx(1)


MEANINGS = dict(
    re.findall(r"^\| `(.+)` \| (.+) \|$", (ROOT / "docs/guide/notation.md").read_text("utf-8"), re.MULTILINE)
)
"""Symbol -> what it stands for: the table that readers have. Symbols of masks stand on boards of their page."""

FORMS = {"N", "v", r"\delta", "Y", r"\Delta", "g"}
"""Symbols whose primes tell forms of the same thing apart."""

OWN_NAMES = FORMS | {r"\gamma", r"\beta", "H"}
"""Symbols of one meaning whose matrices are named after what they belong to, or after the lesson (values: `V`)."""


def test_a_symbol_has_one_meaning() -> None:
    """Without the number of a head, the letter of what a norm reads, and the primes of forms."""
    every = [board for name in RUNS for board in boards(run(name))]
    for site, dropout in product(("encoder.0.self", "decoder.0.self", "decoder.0.cross"), (0.0, 0.5)):
        toy = toy_transformer(4, 2, 1, site.startswith("d"))
        every.append(attention_board(toy, *toy_sentences(4), site, Recipe(dropout=dropout)))
    every.append(inside.convolution_board("CAGGTAAGTA", 3, 2, seed=1))
    every += [recurrent_board(toy_recurrent(4, kind, 1), *toy_sentences(4), 1) for kind in ("additive", "location")]
    names = defaultdict[str, set[str]](set)
    for name, matrix in (item for board in every for item in board.items()):
        symbol = re.sub(r"^(?!W_|b_|F_)(.*)_\d+$", r"\1", matrix.symbol)
        symbol = re.sub(r"^(\\gamma|\\beta)\^.", r"\1", symbol)
        symbol = symbol.rstrip("'") if symbol.rstrip("'") in FORMS else symbol
        of_bias = {symbol.replace("b", "W", 1), symbol.removeprefix("b^")}
        assert {symbol.strip("|"), *of_bias} & set(MEANINGS), f"{symbol} of {name} is not in the table"
        names[symbol].add(re.sub(r"\d+$", "", name))
    assert {symbol for symbol, found in names.items() if len(found) > 1} == OWN_NAMES
    assert set(MEANINGS) == {symbol.strip("|") for symbol in names} & set(MEANINGS) | {"M", "T", "e"}
