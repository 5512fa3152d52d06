"""Every formula and every equation of the lesson, computed as it is written, against the numbers of its board.

All kinds of attention, toys and models with biases, both orders of the norm, and every change that the page offers.
Then every stage against torch in float64, and what a cell came from and goes to.
"""

import copy
import re
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import xlogy
from torch import Tensor
from torch.nn import functional as F

from heedmap.attention.measures import entropy
from heedmap.errors import ConfigError, InputError
from heedmap.lessons.attention import AttentionLayer, Recipe, attention_board, recurrent_board
from heedmap.lessons.board import Board, Matrix
from heedmap.lessons.inside import convolution_board
from heedmap.lessons.operations import START
from heedmap.lessons.sentences import Sentence, toy_recurrent, toy_sentences, toy_transformer
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, preset
from heedmap.sites import Site
from tests.lessons.latex import calculated, evaluated
from tests.pages.opening import figure, fine, matrices, numbers, opened

page = partial(opened, "attention_steps")

SOURCE = Sentence.of((3, 4, 5, 3), ("a", "b", "c", "a"))
TARGET = Sentence.of((1, 7, 8), ("<s>", "x", "y"))
N_KEYS = {"encoder.self": 4, "decoder.self": 3, "decoder.cross": 4}
KINDS = [kind.split(".") for kind in N_KEYS]

RECIPES = [
    Recipe(scaled, temperature, n_heads, hiding, blind, dropout)
    for scaled, temperature, n_heads, hiding, blind, dropout in product(
        (True, False), (1.0, 0.7), (0, 1), ("library", "infinity", "large"), (None, 1), (0.0, 0.4)
    )
    if blind is not None or hiding != "infinity"  # the same as `library` where every query sees a key
]

EVERY = np.ones((1, 1), dtype=bool)
"""A mask that hides nothing."""

SIZES = dict(source_vocab=11, target_vocab=11, d_model=6, n_heads=2, d_ff=5, max_length=13)
SIZES |= dict(n_encoder_layers=2, n_decoder_layers=2)


def shaken(model: Any) -> Any:
    """Biases, gains and shifts as training leaves them."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@cache
def model(name: str, norm_first: bool) -> Seq2Seq:
    """A toy, or a dialect with parameters as training leaves them."""
    torch.manual_seed(3)
    if name == "toy":
        return toy_transformer(4, 2, 1, norm_first)
    return shaken(Seq2Seq(preset(name, **SIZES, norm_first=norm_first)))


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


def cases(visible: np.ndarray, kept: np.ndarray) -> dict[str, np.ndarray]:
    """Where the words of a formula hold."""
    sees = np.broadcast_to(visible.any(axis=1, keepdims=True), visible.shape)
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
        assert bool(formulas) is (matrix.operation is not START), name
        for row, column in random.integers(0, matrix.values.shape, size=(cells, 2)):
            check_cell(board, matrix, int(row), int(column))
        if not formulas:
            continue
        assert formulas[0].startswith(matrix.symbol)
        known = {symbol: values for symbol, values in symbols.items() if symbol != matrix.symbol}
        dropped = f"B{matrix.head}"
        kept = board[dropped].values != 0 if dropped in board else visible
        found = evaluated(formulas, known, cases(visible, kept))
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


@pytest.mark.parametrize(("name", "norm_first"), list(product(SITES, (False, True))))
def test_every_formula_gives_the_board_s_numbers_whatever_is_changed(name: str, norm_first: bool):
    for site in SITES[name]:
        layer = AttentionLayer(model(name, norm_first), *sentences(name), site)
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
    config = RecurrentConfig.of(
        source_vocab=11, target_vocab=11, hidden=5, attention=attention, dropout=0.0, max_length=7
    )
    return Recurrent(config)


@pytest.mark.parametrize(("attention", "is_toy"), list(product(("additive", "location"), (True, False))))
def test_every_formula_of_a_recurrent_decoder_gives_its_numbers(attention: str, is_toy: bool):
    for step in range(3):
        board = recurrent_board(recurrent(attention, is_toy), SOURCE, TARGET, step)
        check(board, np.ones(board["A"].values.shape, dtype=bool), 3, set())


def test_an_equation_can_be_worked_out_by_hand_and_the_formula_of_the_scale_says_what_is_divided_by():
    """With three decimals, -0.89 x (-1.766) + 0.005 x (-4.074) is 1.551, and the matrix says 1.553."""
    of = partial(attention_board, model("toy", False), *toy_sentences(4), "encoder.0.self")
    latex = of().equation("S0", 1, 2).latex
    assert r"S_0[1,2] \approx {-0.89" in latex
    assert r"\approx 1.553" in latex
    factors = [float(number) for number in re.findall(r"-?\d+\.\d+", latex)[:4]]
    assert round(factors[0] * factors[1] + factors[2] * factors[3], 3) == 1.553
    assert of().equation("sE", 1, 2).latex.count(" = ") == 2, "numbers with all their digits are equal"
    changes = (Recipe(), Recipe(scaled=False), Recipe(temperature=2.0), Recipe(scaled=False, temperature=2.0))
    assert [of(change).formulas("D0")[0] for change in changes] == [
        r"S'_0 = \frac{S_0}{\sqrt{d_k}} \qquad d_k = 2",
        r"S'_0 = S_0",
        r"S'_0 = \frac{S_0}{T \cdot \sqrt{d_k}} \qquad T = 2 \qquad d_k = 2",
        r"S'_0 = \frac{S_0}{T} \qquad T = 2",
    ]


@pytest.mark.parametrize("attention", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("recipe", [{}, {"scaled": "False", "blind": "2"}, {"hiding": "large", "blind": "2"}])
def test_the_curve_is_the_entropy_of_the_scores_at_every_temperature(attention: str, recipe: dict[str, str]):
    scores = matrices(fine(page(attention=attention, stage="scores", **recipe)))[1]["S0"].astype(float).reshape(-1, 4)
    visible = np.tri(len(scores), 4, dtype=bool) if attention == "decoder" else np.ones(scores.shape, dtype=bool)
    visible[int(recipe.get("blind", 0)) - 1] &= "blind" not in recipe
    hidden = -1e9 if recipe.get("hiding") == "large" else -np.inf
    by = 1.0 if "scaled" in recipe else 2**0.5
    at = fine(page(attention=attention, screen="rows", **recipe))
    said = [part.value.strip("$\n ").split(" = ")[0] for part in at.latex[1:]]
    assert [one.removesuffix("[i,j]") for one in said] == ["S'_0", "S''_0", "A_0"], "the formulas of the board"
    curve = figure(at)["data"]
    for number, temperature in enumerate(numbers(curve[0]["x"])):
        weights = torch.from_numpy(np.where(visible, scores / by / temperature, hidden)).softmax(-1).numpy()
        found = [numbers(line["y"])[number] for line in curve]
        np.testing.assert_allclose(found, -xlogy(weights, weights).sum(axis=1), atol=2e-5)  # of single precision


@pytest.mark.parametrize("attention", ["additive", "location"])
@torch.no_grad()
def test_the_context_goes_into_the_state_that_the_next_step_asks_with(attention: str):
    """By torch's own GRU cell, and by the state with which the next step begins."""
    model = recurrent(attention, False)
    board, after = (recurrent_board(model, SOURCE, TARGET, step) for step in (0, 1))
    read = torch.from_numpy(np.concatenate([board["e"].values, board["Z"].values], axis=1))
    exact = copy.deepcopy(model).double()
    cell = torch.nn.GRUCell(exact.decoder.weight_ih.shape[1], exact.config.decoder.hidden, dtype=torch.float64)
    for name, parameter in cell.named_parameters():
        parameter.copy_(getattr(exact.decoder, name))
    moved = cell(exact.combine(read), torch.from_numpy(board["s"].values))
    np.testing.assert_allclose(board["next"].values, moved, rtol=0, atol=1e-12)
    np.testing.assert_allclose(board["next"].values, after["s"].values, rtol=0, atol=1e-12)


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
    check(board, EVERY, 3, set())


FIVE = Sentence.of((3, 4, 5, 3, 6), ("a", "b", "c", "a", "d"))
ALL_SITES = [f"{stack}.{i}.{kind}" for i in (0, 1) for stack, kind in KINDS]


def wide(dialect: str = "torch", **options: Any) -> Seq2Seq:
    sizes = SIZES | dict(d_model=14, d_ff=13, max_length=17)
    return shaken(Seq2Seq(preset(dialect, **sizes, **options)).double().eval())


def tensor(board: Board, name: str) -> Tensor:
    return torch.from_numpy(board[name].values)


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("site", ALL_SITES)
@pytest.mark.parametrize(
    ("dialect", "options", "ids"),
    [("torch", {}, (1, 7, 8)), ("annotated", {}, (1, 7, 8)), ("jadore", {}, (1, 7, 8)),
     # What pads sources may be a word of a target, and the other way round.
     ("torch", {"pad_id": 7, "target_pad_id": 9}, (1, 7, 8, 9)),
     ("torch", {"pad_id": 9, "target_pad_id": 7}, (1, 7, 8, 9))],
)  # fmt: skip
def test_the_last_matrix_is_what_the_layer_itself_hands_on(
    dialect: str, options: dict[str, int], ids: tuple[int, ...], site: str
):
    made, target, at = wide(dialect, **options), Sentence.of(ids, tuple("sxyz"[: len(ids)])), Site(site)
    board = attention_board(made, FIVE, target, site)
    residual = getattr(getattr(made, at.stack)[at.layer], f"{at.kind}_residual")
    seen: list[Tensor] = []
    with residual.register_forward_hook(lambda module, inputs, output: seen.append(output)), torch.no_grad():
        made(torch.tensor([FIVE.ids]), torch.tensor([target.ids]))
    same(tensor(board, list(board)[-1]), seen[0][0])


CHANGES = (
    Recipe(scaled=False),
    Recipe(temperature=0.5),
    Recipe(temperature=3.0, scaled=False, hiding="large"),
    Recipe(n_heads=1),
    Recipe(dropout=0.4),
    Recipe(blind=1, hiding="large"),
    Recipe(blind=1, hiding="infinity"),
    Recipe(blind=0),
)
CASES = [
    *(("recurrent", kind) for kind in ("additive", "location")),
    *zip(("torch", "annotated", "jadore"), ("encoder.0.self", "decoder.1.cross", "decoder.0.self"), strict=True),
    *(("torch", recipe) for recipe in CHANGES),
]


@pytest.mark.parametrize(("kind", "what"), CASES)
def test_the_highlight_is_exactly_what_the_cell_depends_on(kind: str, what: Any):
    """A cell lights another one if and only if that one lights it from the other end."""
    if kind == "recurrent":
        board = recurrent_board(toy_recurrent(3, what, 1), *toy_sentences(3), step=2)
    else:
        recipe, site = (what, "decoder.0.self") if isinstance(what, Recipe) else (Recipe(), what)
        board = attention_board(wide(kind), FIVE, TARGET, site, recipe)
    for name, matrix in board.items():
        row, column = matrix.values.shape[0] - 1, matrix.values.shape[1] // 2
        light = board.highlight(name, row, column)
        assert set(light["sources"]) <= set(matrix.operation.operands)
        for source, cells in light["sources"].items():
            for r, c in np.argwhere(cells)[:2]:
                assert board.highlight(source, int(r), int(c))["targets"][name][row, column]
        for target, cells in light["furtherTargets"].items():
            r, c = np.argwhere(cells)[0]
            back = board.highlight(target, int(r), int(c))
            reached = back["sources"].get(name, False) | back["furtherSources"].get(name, np.zeros((1, 1), bool))
            assert np.broadcast_to(reached, matrix.values.shape)[row, column]


def test_a_score_comes_from_one_query_and_one_key_and_goes_to_its_row_or_where_it_is_hidden_nowhere():
    board = attention_board(toy_transformer(6, 2, seed=1), *toy_sentences(4), "encoder.0.self")
    light = board.highlight("S1", 2, 3)
    assert set(light["sources"]) == {"Q1", "K1"}
    assert light["sources"]["Q1"].nonzero()[0].tolist() == [2, 2, 2]
    assert light["sources"]["K1"].nonzero()[0].tolist() == [3, 3, 3]
    assert np.argwhere(light["targets"]["D1"]).tolist() == [[2, 3]]
    assert np.argwhere(light["furtherTargets"]["A1"]).tolist() == [[2, 0], [2, 1], [2, 2], [2, 3]]
    assert "S0" not in light["furtherTargets"]
    assert light["furtherSources"]["W_Q1"].all()
    board = attention_board(toy_transformer(4, 1, seed=0), *toy_sentences(3), "decoder.0.self")
    assert board["A0"].values[0, 1] == 0
    assert set(board.highlight("D0", 0, 1)["targets"]) == set()
    assert board.equation("M0", 0, 1).latex == r"S''_0[0,1] = -\infty"


def test_other_numbers_of_heads_use_the_same_parameters():
    made = wide()
    one = attention_board(made, FIVE, TARGET, "encoder.0.self", Recipe(n_heads=1))
    two = attention_board(made, FIVE, TARGET, "encoder.0.self")
    np.testing.assert_array_equal(one["W_Q0"].values, np.concatenate([two["W_Q0"].values, two["W_Q1"].values], axis=1))
    np.testing.assert_allclose(one["S0"].values, two["S0"].values + two["S1"].values, atol=1e-12)
    q, k, v = (tensor(one, f"{name}0") for name in "QKV")
    same(tensor(one, "Z0"), F.scaled_dot_product_attention(q, k, v))


def test_the_library_row_that_sees_nothing_is_what_the_fused_attention_returns():
    board = attention_board(wide(), FIVE, TARGET, "decoder.0.self", Recipe(blind=1))
    visible = torch.ones(3, 3).tril().bool()
    visible[1] = False
    q, k, v = (tensor(board, f"{name}0") for name in "QKV")
    same(tensor(board, "Z0"), F.scaled_dot_product_attention(q, k, v, attn_mask=visible))


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
def test_toys_are_drawn_from_their_seed_and_can_be_written_down(width: int, step: float, most: float):
    made, again, other = (toy_transformer(width, 2, seed) for seed in (5, 5, 6))
    for matrix in (p / step for p in made.parameters() if p.dim() > 1):
        assert torch.allclose(matrix, matrix.round(), atol=1e-6)
        assert (matrix.abs() <= most / step + 1e-6).all()
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), again.parameters(), strict=True))
    assert not torch.equal(made.source_embedding.weight, other.source_embedding.weight)


def test_the_lesson_leaves_the_model_as_it_was():
    made = wide().float()
    before = [p.clone() for p in made.parameters()]
    attention_board(made, FIVE, TARGET, "encoder.0.self", Recipe(n_heads=1, scaled=False))
    assert made.encoder[0].self_attention.n_heads == 2
    assert all(p.dtype == torch.float32 and torch.equal(p, b) for p, b in zip(made.parameters(), before, strict=True))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in made.modules())


MISTAKES: dict[str, list[Any]] = {
    "n_heads=3": [lambda: attention_board(wide(), FIVE, TARGET, "encoder.0.self", Recipe(n_heads=3))],
    "letters out of ACGT": [partial(convolution_board, one, 3, 2, 0) for one in ("AC", "ACGTACGTACG", "ACN")],
    "d_model=5": [lambda: toy_transformer(5, 2, 0)],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_explained(message: str):
    for call in MISTAKES[message]:
        with pytest.raises((ConfigError, InputError), match=message):
            call()
