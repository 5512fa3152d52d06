"""Every formula and every equation of the lesson, computed as it is written, against the numbers of its board.

All kinds of attention, toys and models with biases, both orders of the norm, and every change that the page offers.
"""

import copy
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from tests.lessons.latex import calculated, evaluated
from tests.pages.opening import figure, fine, matrices, numbers, opened
from transformer.errors import InputError
from transformer.lessons.attention import AttentionLayer, attention_board
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.inside.convolution import convolution_board
from transformer.lessons.recipe import Recipe
from transformer.lessons.recurrent import recurrent_board
from transformer.lessons.sentences import Sentence
from transformer.lessons.toy import toy_recurrent, toy_sentences, toy_transformer
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, preset

page = partial(opened, "attention_steps")

SOURCE = Sentence.of((3, 4, 5, 3), ("a", "b", "c", "a"))
TARGET = Sentence.of((1, 7, 8), ("<s>", "x", "y"))
N_KEYS = {"encoder.self": 4, "decoder.self": 3, "decoder.cross": 4}

RECIPES = [
    Recipe(scaled, temperature, n_heads, hiding, scale_first, blind, dropout, seed=1)
    for scaled, temperature, n_heads, hiding, scale_first, blind, dropout in product(
        (True, False), (1.0, 0.7), (0, 1), ("library", "infinity", "large"), (True, False), (None, 1), (0.0, 0.4)
    )
    if blind is not None or hiding != "infinity"  # the same as `library` where every query sees a key
]


@cache
def trained(dialect: str, norm_first: bool) -> Seq2Seq:
    """Two layers with biases, gains and shifts, as training leaves them."""
    torch.manual_seed(3)
    made = Seq2Seq(
        preset(
            dialect, source_vocab=11, target_vocab=11, d_model=6, n_heads=2, d_ff=5, n_encoder_layers=2,
            n_decoder_layers=2, max_length=13, norm_first=norm_first,
        )
    )  # fmt: skip
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


@cache
def toy(norm_first: bool) -> Seq2Seq:
    return toy_transformer(4, 2, 1, norm_first)


MODELS: dict[str, Callable[[bool], Seq2Seq]] = {
    "toy": toy,
    **{name: lambda first, name=name: trained(name, first) for name in ("torch", "annotated", "jadore")},  # type: ignore[misc]
}
SITES = {
    "toy": ("encoder.0.self", "decoder.0.self", "decoder.0.cross"),
    "torch": ("encoder.1.self", "decoder.0.self", "decoder.1.cross"),
    "annotated": ("encoder.0.self", "decoder.1.self", "decoder.0.cross"),
    "jadore": ("encoder.0.self", "decoder.0.self"),
}


def visible_by(site: str, recipe: Recipe) -> np.ndarray:
    """Who may see whom, from the definition of each attention: no padding is here, targets see their past."""
    stack, _, kind = site.split(".")
    shape = (4 if stack == "encoder" else 3, N_KEYS[f"{stack}.{kind}"])
    visible = np.tri(*shape, dtype=bool) if (stack, kind) == ("decoder", "self") else np.ones(shape, dtype=bool)
    if recipe.blind is not None:
        visible[recipe.blind] = False
    return visible


def cases(board: Board, head: int | None, visible: np.ndarray) -> dict[str, np.ndarray]:
    """Where the words of a formula hold."""
    sees = np.broadcast_to(visible.any(axis=1, keepdims=True), visible.shape)
    kept = board[f"B{head}"].values != 0 if f"B{head}" in board else visible
    return {
        r"\text{if query }i\text{ may see key }j": visible,
        r"\text{if it may not}": ~visible,
        r"\text{if query }i\text{ sees a key}": sees,
        r"\text{if it sees none}": ~sees,
        r"\text{if it was kept}": kept,
        r"\text{if it was dropped}": ~kept,
    }


def check(board: Board, visible: np.ndarray, cells: int, known_right: set[Matrix]) -> None:
    """Each formula gives its matrix; the equation of some cells, by hand, gives the number that it shows.

    What was right on a board is not looked at again on the next one, if it is the very same.
    """
    symbols = {matrix.symbol: matrix.values for matrix in board.values()}
    assert len(symbols) == len(board), "one symbol, one matrix"
    random = np.random.default_rng(len(board))
    for name, matrix in board.items():
        if matrix in known_right:
            continue
        known_right.add(matrix)
        formulas = board.formulas(name)
        assert bool(formulas) is not isinstance(matrix.operation, Given), name
        for row, column in random.integers(0, matrix.values.shape, size=(cells, 2)):
            check_cell(board, matrix, int(row), int(column))
        if not formulas:
            continue
        assert formulas[0].startswith(matrix.symbol)
        known = {symbol: values for symbol, values in symbols.items() if symbol != matrix.symbol}
        found = evaluated(formulas, known, cases(board, matrix.head, visible))
        np.testing.assert_allclose(
            np.broadcast_to(found, matrix.values.shape), matrix.values, rtol=1e-12, atol=1e-9, err_msg=f"{formulas}"
        )


def check_cell(board: Board, matrix: Matrix, row: int, column: int) -> None:
    equation = board.equation(matrix.name, row, column)
    value = matrix.values[row, column]
    np.testing.assert_allclose(equation.total, value, rtol=1e-12, atol=1e-9)
    if r"\cdots" in equation.latex or r"\frac{0}{0}" in equation.latex:
        return
    found, result = calculated(equation.latex)
    if np.isnan(value) or np.isinf(value):
        assert np.isnan(result) if np.isnan(value) else result == value
        return
    half = 0.5e-3 if 0.5e-3 <= abs(result) < 1e6 or result == 0 else 0.5e-2 * 10 ** np.floor(np.log10(abs(result)))
    assert abs(result - value) <= half * 1.001, equation.latex
    assert abs(found - result) <= half * 1.001, equation.latex
    if r"\approx" not in equation.latex:
        assert found == pytest.approx(value, rel=1e-8, abs=1e-12), f"not rounded, it says: {equation.latex}"


@pytest.mark.parametrize(("name", "norm_first"), list(product(MODELS, (False, True))))
def test_every_formula_gives_the_board_s_numbers_whatever_is_changed(name: str, norm_first: bool):
    for site in SITES[name]:
        layer = AttentionLayer(MODELS[name](norm_first), *sentences(name), site)
        known_right: set[Matrix] = set()
        recipes = RECIPES if name in {"toy", "torch"} else [Recipe()]
        for number, recipe in enumerate(recipes[::3] if norm_first else recipes):  # a norm before changes what is read
            check(layer.board(recipe), visible_by(site, recipe), int(number % 8 == 0), known_right)


def sentences(name: str) -> tuple[Sentence, Sentence]:
    if name != "toy":
        return SOURCE, TARGET
    return toy_sentences(4)[0], toy_sentences(3)[1]


@cache
def recurrent(attention: Any, is_toy: bool) -> Recurrent:
    if is_toy:
        return toy_recurrent(3, attention, 1)
    torch.manual_seed(5)
    config = RecurrentConfig(source_vocab=11, target_vocab=11, hidden=5, attention=attention, dropout=0.0, max_length=7)
    return Recurrent(config)


@pytest.mark.parametrize(
    ("attention", "is_toy"), [*product(("additive", "location"), (True, False)), ("dot", False), ("general", False)]
)
def test_every_formula_of_a_recurrent_decoder_gives_its_numbers(attention: str, is_toy: bool):
    for step in range(3):
        board = recurrent_board(recurrent(attention, is_toy), SOURCE, TARGET, step)
        check(board, np.ones(board["A"].values.shape, dtype=bool), 3, set())


def test_a_cell_that_is_picked_first_can_be_worked_out_by_hand():
    """With three decimals, -0.89 x (-1.766) + 0.005 x (-4.074) is 1.551, and the matrix says 1.553."""
    latex = attention_board(toy(False), *toy_sentences(4), "encoder.0.self").equation("S0", 1, 2).latex
    assert r"S_0[1,2] \approx {-0.89" in latex
    assert r"\approx 1.553" in latex
    factors = [float(number) for number in re.findall(r"-?\d+\.\d+", latex)[:4]]
    assert round(factors[0] * factors[1] + factors[2] * factors[3], 3) == 1.553


def test_numbers_with_all_their_digits_are_equal():
    board = attention_board(toy(False), *toy_sentences(4), "encoder.0.self")
    assert board.equation("sE", 1, 2).latex.count(" = ") == 2


def combinations() -> Iterator[Board]:
    for change in (Recipe(), Recipe(scaled=False), Recipe(temperature=2.0), Recipe(scaled=False, temperature=2.0)):
        yield attention_board(toy(False), *toy_sentences(4), "encoder.0.self", change)


def test_the_formula_of_the_scale_says_what_is_divided_by():
    found = [board.formulas("D0")[0] for board in combinations()]
    assert found == [
        r"S'_0 = \frac{S_0}{\sqrt{d_k}} \qquad d_k = 2",
        r"S'_0 = S_0",
        r"S'_0 = \frac{S_0}{T \cdot \sqrt{d_k}} \qquad T = 2 \qquad d_k = 2",
        r"S'_0 = \frac{S_0}{T} \qquad T = 2",
    ]


@pytest.mark.parametrize("attention", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"temperature": "0.3"},
        {"scaled": "False", "blind": "2"},
        {"mask_first": "True", "hiding": "large", "blind": "2"},
    ],
)
def test_the_formulas_beside_the_curve_give_the_curve(attention: str, recipe: dict[str, str]):
    """Computed as they are written, at every temperature of the curve, from the scores on the page."""
    scores = matrices(fine(page(attention=attention, stage="scores", **recipe)))[1]["S0"].astype(float)
    n_queries = len(scores := scores.reshape(-1, 4))
    visible = np.tri(n_queries, 4, dtype=bool) if attention == "decoder" else np.ones((n_queries, 4), dtype=bool)
    if "blind" in recipe:
        visible[int(recipe["blind"]) - 1] = False
    sees = np.repeat(visible.any(axis=1, keepdims=True), 4, axis=1)
    where = {
        r"\text{if query }i\text{ may see key }j": visible, r"\text{if it may not}": ~visible,
        r"\text{if query }i\text{ sees a key}": sees, r"\text{if it sees none}": ~sees,
    }  # fmt: skip
    at = fine(page(attention=attention, screen="rows", **recipe))
    curve, formulas = figure(at)["data"], [part.value.strip("$\n ") for part in at.latex[1:]]
    for number, temperature in enumerate(numbers(curve[0]["x"])):
        known = {"T": np.array(temperature), "S_0": scores}
        for formula in formulas:
            symbol = formula.split(" = ")[0].removesuffix("[i,j]")
            known[symbol] = np.broadcast_to(evaluated([formula], known, where), scores.shape)
        weights = known["A_0"]
        with np.errstate(divide="ignore", invalid="ignore"):
            entropies = -np.where(weights > 0, weights * np.log(weights), 0.0).sum(axis=1)
        for line, expected, some in zip(curve, entropies, sees[:, 0], strict=True):
            found = numbers(line["y"])[number]
            if some or recipe.get("hiding") == "large":
                assert found == pytest.approx(expected, abs=2e-5)  # scores are sent in single precision
            else:
                assert np.isnan(found)


@pytest.mark.parametrize(
    ("letters", "width", "filters", "seed"), [("cagGTAAGTA", 3, 2, 1), ("TTAC", 4, 3, 5), ("G", 1, 4, 7)]
)
def test_a_convolution_over_letters_is_that_of_torch(letters: str, width: int, filters: int, seed: int):
    board = convolution_board(letters, width, filters, seed)
    ones = torch.tensor([[float(letter == one) for letter in letters.upper()] for one in "ACGT"]).double()[None]
    weight = torch.from_numpy(board["filters"].values).T.reshape(filters, width, 4).transpose(1, 2)
    theirs = torch.nn.functional.conv1d(ones, weight, torch.from_numpy(board["bias"].values[0]))[0].T
    np.testing.assert_allclose(board["answers"].values, theirs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(board["relu"].values, theirs.relu(), rtol=0, atol=1e-12)
    check(board, np.ones((1, 1), dtype=bool), 3, set())


@pytest.mark.parametrize("letters", ["AC", "ACGTACGTACG", "ACN"])
def test_letters_that_a_blackboard_cannot_show_are_refused(letters: str):
    with pytest.raises(InputError, match="letters out of ACGT"):
        convolution_board(letters, 3, 2, 0)


@pytest.mark.parametrize("attention", ["additive", "location"])
@torch.no_grad()
def test_the_context_goes_into_the_state_that_the_next_step_asks_with(attention: str):
    """By torch's own GRU cell, and by the state with which the next step begins."""
    model = recurrent(attention, False)
    board, after = (recurrent_board(model, SOURCE, TARGET, step) for step in (0, 1))
    read = torch.from_numpy(np.concatenate([board["e"].values, board["Z"].values], axis=1))
    exact = copy.deepcopy(model).double()
    cell = torch.nn.GRUCell(exact.decoder.weight_ih.shape[1], exact.config.hidden, dtype=torch.float64)
    for name, parameter in cell.named_parameters():
        parameter.copy_(getattr(exact.decoder, name))
    moved = cell(exact.combine(read), torch.from_numpy(board["s"].values))
    np.testing.assert_allclose(board["next"].values, moved, rtol=0, atol=1e-12)
    np.testing.assert_allclose(board["next"].values, after["s"].values, rtol=0, atol=1e-12)
