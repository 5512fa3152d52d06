"""The lesson "Inside a layer": every formula against its board, every board against NumPy and the paper, in float64."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from math import erf
from typing import Any

import numpy as np
import pytest
import torch

from tests.lessons.latex import evaluated
from tests.lessons.test_formulas import check_cell
from transformer.errors import InputError
from transformer.lessons.expressions.board import Board
from transformer.lessons.expressions.operations import Given
from transformer.lessons.inside import norms
from transformer.lessons.inside.boards import embedding_board, feed_forward_board, order_board, residual_board
from transformer.lessons.inside.outputs import is_tied, likeliest, output_board, positions_of
from transformer.lessons.run import Run, in_float64
from transformer.lessons.sentences import Sentence
from transformer.lessons.toy import toy_layers, toy_sentences, toy_words
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.norms import norm_kind
from transformer.nn.seq2seq import Seq2Seq, preset
from ui.components.matrices.readable import readable

SOURCE = Sentence.of((3, 4, 5, 3), ("a", "b", "c", "a"))
TARGET = Sentence.of((1, 7, 8), ("<s>", "x", "y"))


def words(ids: Any) -> list[str]:
    return [f"w{i}" for i in ids]


def shaken(model: Any) -> Any:
    """Biases, gains and shifts as training leaves them."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return in_float64(model)


@cache
def run(name: str) -> Run:
    """A run of each dialect, of toys, of an encoder alone."""
    torch.manual_seed(3)
    if name.startswith("toy"):
        model = toy_layers(6, 2, norm_first="first" in name, gelu="gelu" in name, tied="tied" in name)
        return Run(model, *toy_sentences(4), lambda ids: [toy_words()[i] for i in ids])
    if name.startswith("encoder"):
        reads = name.removeprefix("encoder").strip()
        encoder = EncoderConfig(
            vocab=11, d_model=6, n_heads=2, d_ff=5, n_layers=2, max_length=13, head=(7, 3) if reads else (),
            head_reads=reads or "each", norm_first=reads == "each", scale_embedding=reads == "mean",
            position_axis="batch" if reads == "first" else "sequence",
            activation={"": "gelu_tanh", "first": "silu"}.get(reads, "gelu"),
        )  # fmt: skip
        return Run(shaken(Encoder(encoder)), SOURCE, None, words)
    dialect, *first = name.split()
    config = preset(
        dialect, source_vocab=17, target_vocab=17, d_model=6, n_heads=2, d_ff=5, n_encoder_layers=2,
        n_decoder_layers=2, max_length=13, norm_first=bool(first),
    )  # fmt: skip
    return Run(shaken(Seq2Seq(config)), SOURCE, TARGET, words)


RUNS = [
    "toy", "toy first gelu tied", "torch", "torch first", "annotated first", "annotated", "jadore", "encoder",
    "encoder each", "encoder mean", "encoder first",
]  # fmt: skip


def places(one: Run) -> Iterator[tuple[str, int, str]]:
    for stack in one.stacks:
        for part in one.parts(stack):
            yield stack, one.n_layers(stack) - 1, part


def boards(one: Run) -> Iterator[Board]:
    """Every board of a run, of the last layers."""
    for stack in one.stacks:
        yield embedding_board(one, stack)
        yield feed_forward_board(one, stack, one.n_layers(stack) - 1)
    for place in places(one):
        yield residual_board(one, *place)
        yield norms.norm_board(one, *place)
        yield order_board(one, *place)
    if positions_of(one):
        yield output_board(one, len(positions_of(one)) - 1)


@pytest.mark.parametrize("name", RUNS)
def test_every_formula_gives_the_board_s_numbers(name: str):
    for board in boards(run(name)):
        symbols = {matrix.symbol: matrix.values for matrix in board.values()}
        assert len(symbols) == len(board), "one symbol, one matrix"
        random = np.random.default_rng(len(board))
        for one, matrix in board.items():
            assert bool(board.formulas(one)) is not isinstance(matrix.operation, Given), one
            row, column = map(int, random.integers(0, matrix.values.shape))
            check_cell(board, matrix, row, column)
            for latex in (*board.formulas(one), board.equation(one, row, column).latex, matrix.symbol):
                assert not set(readable(latex)) & set("\\{}"), "in plain characters, for saved pictures and files"
            board.highlight(one, row, column)
            if not board.formulas(one):
                continue
            assert board.formulas(one)[0].startswith(matrix.symbol)
            known = {symbol: values for symbol, values in symbols.items() if symbol != matrix.symbol}
            found = np.broadcast_to(evaluated(board.formulas(one), known, {}), matrix.values.shape)
            np.testing.assert_allclose(found, matrix.values, rtol=1e-12, atol=1e-9, err_msg=f"{board.formulas(one)}")


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


@pytest.mark.parametrize("name", ["toy", "annotated", "annotated first", "torch", "encoder each"])
def test_every_form_of_the_norm_is_that_of_its_source_and_the_own_one_is_what_ran(name: str):
    one = run(name)
    for place in places(one):
        board, sub = norms.norm_board(one, *place), one.sub_layer(*place)
        gain, shift = weights(sub.residual.norm)
        eps: Any = sub.residual.norm.eps
        for kind in norms.KINDS:
            close(board[norms.RESULT[kind]].values, layer_norm(board["X"].values, gain, shift, eps, kind))
        own = norm_kind(sub.residual.norm)
        assert own == ("annotated" if "annotated" in name else "torch")
        x, found = sub.x[None], sub.found[None]
        ran = sub.residual.reads(x) if sub.residual.norm_first else sub.residual(x, found)
        close(board[norms.RESULT[own]].values, ran[0].detach().numpy())
        told = {each.kind: each for each in norms.apart(board, own, 1)}
        other = "torch" if own == "annotated" else "annotated"
        read = board["X"].values
        assert told[own].largest == 0
        far = layer_norm(read, gain, shift, eps, other) - layer_norm(read, gain, shift, eps, own)
        assert told[other].largest == pytest.approx(np.abs(far).max())
        assert told["annotated"].divisor == pytest.approx(read[1].std(ddof=1) + eps)


@pytest.mark.parametrize("name", ["torch", "torch first", "encoder each", "encoder mean"])
def test_either_order_is_worked_out_with_the_same_weights_and_the_own_one_is_what_ran(name: str):
    one = run(name)
    stack = one.stacks[-1]
    board = order_board(one, stack, 1, "feed_forward")
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
    inside = feed_forward_board(one, stack, 1)
    close(inside["F"].values, sub.found.numpy())
    np.testing.assert_array_equal(inside["on"].values[:, 0], (inside["A"].values > 0).mean(1))


@pytest.mark.parametrize("name", ["torch", "torch first", "jadore", "encoder each"])
def test_what_one_sub_layer_hands_on_is_what_the_next_one_gets(name: str):
    one = run(name)
    for stack in one.stacks:
        close(embedding_board(one, stack)["X"].values, one.sub_layer(stack, 0, "self").x.numpy())
        parts = [(layer, part) for layer in range(2) for part in one.parts(stack)]
        for (layer, part), (next_layer, following) in pairwise(parts):
            norm = one.sub_layer(stack, layer, part).residual
            name_of = "Z" if norm.norm_first else "Y"
            handed = order_board(one, stack, layer, part)[name_of].values
            close(handed, one.sub_layer(stack, next_layer, following).x.numpy())
            if norm.norm_first:
                close(residual_board(one, stack, layer, part)["R"].values, handed)


@pytest.mark.parametrize("name", ["torch", "jadore", "encoder mean"])
def test_the_share_of_the_positions_is_told_with_the_scale_and_without(name: str):
    one = run(name)
    board = embedding_board(one, "encoder")
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
    assert is_tied(one) == (name in {"toy tied", "jadore"})
    assert isinstance(one.model, Seq2Seq)
    source, target = (torch.tensor([one.sentences[stack].ids]) for stack in ("encoder", "decoder"))
    with torch.no_grad():
        logits = one.model(source, target)[0].numpy()
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    for position, ahead in enumerate(likeliest(one)):
        board = output_board(one, position)
        best = np.argsort(-logits[position])[:10]
        close(board["l"].values[0], expected[position][best])
        close(board["p"].values[0], np.exp(expected[position][best]))
        assert board["L"].columns[0] == ahead.word == one.words([int(best[0])])[0]
        assert ahead.probability == pytest.approx(np.exp(expected[position]).max())
        assert ahead.label == one.labels("decoder")[position]
        assert "r" in board, "the other words"


def test_a_classifier_ends_with_one_output_and_an_encoder_alone_with_none():
    assert positions_of(run("encoder mean")) == ("",)
    assert len(positions_of(run("encoder each"))) == 4
    assert positions_of(run("encoder")) == ()
    board = output_board(run("encoder mean"), 0)
    assert "r" not in board
    assert board["p"].values.sum() == pytest.approx(1)
    with pytest.raises(InputError, match="position=0 has no output"):
        output_board(run("encoder"), 0)
    with pytest.raises(InputError, match="choose 0 to 2"):
        output_board(run("torch"), 3)


@pytest.mark.parametrize("place", [("decoder", 0, "self"), ("encoder", 2, "self"), ("encoder", 0, "cross")])
def test_a_sub_layer_that_did_not_run_is_refused(place: tuple[str, int, str]):
    with pytest.raises(InputError, match="no sub-layer of this run"):
        residual_board(run("encoder each"), *place)
    with pytest.raises(InputError, match="no token"):
        Run(run("torch").model, Sentence.of((), ()), None, words)
