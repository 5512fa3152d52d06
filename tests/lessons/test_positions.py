"""Positions: every table against its formula, the rotation, rotary and ALiBi against their definitions, order."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.recurrents import ADDITIVE, SHIPPED, checkpoints_with_recurrents
from transformer import Checkpoint, load, translate
from transformer.errors import CheckpointError, ConfigError, InputError
from transformer.lessons.architectures.pairs import REFERENCES, training_batch
from transformer.lessons.positions import (
    LATER,
    alibi,
    example_weights,
    likeness,
    norm_shares,
    past_the_end,
    position_table,
    rotated,
    rotation,
    rotation_errors,
    shuffle_gaps,
    similarity,
    stored_table,
    trained_table,
    wavelength,
)
from transformer.lessons.sentences import Sentence
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.search import teacher_forced
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.plots.bars import grouped_bars
from transformer.plots.curves import curves
from transformer.text.batch import pad
from transformer.training.translation import Pair, ParallelText, pairs

SENTENCE = Sentence.of((4, 5, 6, 4, 7), tuple("abcad"))


def model(**options: Any) -> Any:
    sizes: dict[str, Any] = dict(source_vocab=11, target_vocab=11, d_model=14, n_heads=2, d_ff=9, max_length=17)
    return Seq2Seq(Seq2SeqConfig(n_encoder_layers=2, n_decoder_layers=1, **(sizes | options))).eval()


def by_hand(variant: str, p: int, j: int, d: int, base: float) -> float:
    if variant == "doubled":
        angle = p / base ** (2 * j / d)
        return np.sin(angle) if j % 2 == 0 else np.cos(angle)
    if variant == "halves":
        half = (d + 1) // 2
        i, is_sine = (j, True) if j < half else (j - half, False)
    else:
        i, is_sine = j // 2, j % 2 == 0
    angle = p / base ** (2 * i / d)
    return np.sin(angle) if is_sine else np.cos(angle)


@pytest.mark.parametrize("variant", ["paper", "doubled", "halves"])
@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize("d", [10, 11])
def test_fixed_tables_are_their_formulas(variant: Any, base: float, d: int):
    table = position_table(variant, 13, d, base)
    expected = [[by_hand(variant, p, j, d, base) for j in range(d)] for p in range(13)]
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-12)


def test_learned_and_none():
    learned = position_table("learned", 7, 11, seed=3)
    assert learned.shape == (7, 11)
    assert not np.array_equal(learned, position_table("learned", 7, 11, seed=4))
    assert not position_table("none", 7, 11).any()
    assert stored_table(model()) is None
    made = model(positions="learned")
    table = stored_table(made)
    assert table is not None
    np.testing.assert_array_equal(table, made.source_positions.table.detach().double().numpy())


def test_a_wave_comes_back_after_its_wavelength():
    d, base = 10, 20.0
    for dimension in range(d):
        length = wavelength(dimension, d, base)
        angle = 2 * np.pi / length
        table = position_table("paper", 30, d, base)
        wave = np.sin if dimension % 2 == 0 else np.cos
        np.testing.assert_allclose(table[:, dimension], wave(angle * np.arange(30)), atol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 5])
def test_one_matrix_moves_every_position_by_k(k: int):
    table = position_table("paper", 23, 14)
    assert rotation_errors(table, k).max() < 1e-12
    np.testing.assert_allclose(rotation(k, 14) @ rotation(k, 14).T, np.eye(14), atol=1e-12)
    if k:
        assert rotation_errors(position_table("doubled", 23, 14), k).max() > 0.1


def test_likeness_counts_by_hand():
    table = np.array([[1.0, 0.0], [0.5, 1.0], [2.0, 0.5]])
    products = similarity(table)  # from 0: 1, 0.5, 2; at distance 1: 0.5 and 1.5; at distance 0: 1, 1.25, 4.25
    assert likeness(products) == (3.25, 1, 2, False)
    assert likeness(np.zeros((3, 3))) == (0.0, 0, 2, True)


def test_the_trained_table_is_no_noise_and_knows_near_from_far():
    """Position 0 is like the next ones and unlike those ten steps away; a table before training is like neither."""
    table, sentences = trained_table()
    assert table.shape == (64, 64)
    assert len(sentences) == 64
    assert (np.diff(sentences) <= 0).all()

    def cosine(rows: np.ndarray, distance: int) -> float:
        unit = rows[:30] / np.linalg.norm(rows[:30], axis=1, keepdims=True)
        return float(np.diag(unit @ unit.T, distance).mean())

    assert cosine(table, 1) > 0.9
    assert cosine(table, 1) > cosine(table, 4) + 0.2 > cosine(table, 15) + 0.4
    assert abs(cosine(position_table("learned", 64, 64), 1)) < 0.1


def test_rotary_is_a_product_of_complex_numbers_and_sees_distances_alone():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(7, 10))
    angles = np.arange(7)[:, None] / 10_000 ** (np.arange(0, 10, 2) / 10)
    turned = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    np.testing.assert_allclose(rotated(x)[:, 0::2], turned.real, atol=1e-12)
    np.testing.assert_allclose(rotated(x)[:, 1::2], turned.imag, atol=1e-12)
    q, k = (np.repeat(draw.normal(size=(1, 10)), 7, axis=0) for _ in range(2))
    scores = rotated(q) @ rotated(k).T
    for distance in (-3, 0, 2):
        assert np.ptp(np.diag(scores, distance)) < 1e-12


def test_alibi_falls_by_its_slope():
    np.testing.assert_array_equal(alibi(4, 0.5)[1], [-0.5, 0, -0.5, -1])


@pytest.mark.parametrize("how", LATER)
def test_equal_words_attend_alike_only_without_positions(how: Any):
    weights = example_weights(how, [0, 1, 2, 0, 1], 6, seed=1)
    np.testing.assert_allclose(weights.sum(1), 1.0)
    assert np.allclose(weights[0], weights[3]) == (how == "none")


def test_order_is_nothing_without_positions():
    made = model()
    order = [3, 1, 4, 0, 2]
    assert shuffle_gaps(made, SENTENCE, order, with_positions=False).max() < 1e-12
    found = shuffle_gaps(made, SENTENCE, order, with_positions=True)
    exact = made.double()
    with torch.no_grad():
        ids = torch.tensor([SENTENCE.ids])
        straight, shuffled = exact.encode(ids)[0][0], exact.encode(ids[:, order])[0][0]
    expected = [
        float((straight[i] - shuffled[order.index(i)]).norm() / straight[i].norm()) for i in range(len(SENTENCE.ids))
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found.max() > 0.01
    assert made.source_positions(torch.zeros(1, 3, 14)).abs().sum() > 0


def test_the_fixed_table_has_no_end_and_the_learned_one_has():
    np.testing.assert_allclose(past_the_end("sinusoidal", 8, 6, 20), position_table("paper", 20, 6), atol=1e-12)
    assert past_the_end("learned", 8, 6, 8).shape == (8, 6)
    with pytest.raises(InputError, match="9 positions are more than the 8"):
        past_the_end("learned", 8, 6, 9)


def test_norm_shares_are_the_lengths_of_what_is_added():
    made = model()
    shares = norm_shares(made, SENTENCE)
    with torch.no_grad():
        word = made.source_embedding(torch.tensor(SENTENCE.ids)).double() * 14**0.5
    place = torch.from_numpy(position_table("paper", 5, 14))
    np.testing.assert_allclose(shares["word"], word.norm(dim=1), rtol=1e-9)
    np.testing.assert_allclose(shares["position"], np.sqrt(7.0), rtol=1e-9)
    np.testing.assert_allclose(shares["sum"], (word + place).norm(dim=1), rtol=1e-9)
    np.testing.assert_allclose(shares["share"], 7 / (7 + shares["word"] ** 2), rtol=1e-9)
    np.testing.assert_allclose(shares["unscaled"], 7 / (7 + shares["word"] ** 2 / 14), rtol=1e-9)
    unscaled = norm_shares(model(scale_embedding=False), SENTENCE)
    np.testing.assert_array_equal(unscaled["unscaled"], unscaled["share"])


@pytest.mark.parametrize("dark", [False, True])
def test_figures_show_the_arrays_themselves(dark: bool):
    table = position_table("paper", 5, 6)
    drawn = curves({"<b>one</b>": table[:, 0], "two": table[:, 1]}, "x", "y", dark=dark)
    np.testing.assert_array_equal(drawn.data[1].y, table[:, 1])
    assert drawn.data[0].name == "&lt;b&gt;one&lt;/b&gt;"
    bars = grouped_bars({"a": table[0]}, list("uvwxyz"), "y", dark=dark)
    np.testing.assert_array_equal(bars.data[0].y, table[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: position_table("paper", 0, 4), "length=0"),
        (lambda: position_table("paper", 4, 2000), "d_model=2000"),
        (lambda: position_table("paper", 4, 4, base=1.0), "base=1.0"),
        (lambda: rotation(1, 5), "d_model=5"),
        (lambda: rotation_errors(position_table("paper", 4, 4), 4), "k=4"),
        (lambda: shuffle_gaps(model(), SENTENCE, [0, 0, 1, 2, 3], True), "no permutation"),
    ],
)
def test_mistakes_are_explained(call: Any, message: str):
    with pytest.raises((ConfigError, InputError), match=message):
        call()


LONG = ("A man in a blue shirt is riding a bicycle.", "Ein Mann in einem blauen Hemd fährt Fahrrad.")
SHORT = ("Two dogs run.", "Zwei Hunde rennen.")


@pytest.fixture(scope="module", params=["multi30k-en-de", ADDITIVE])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(Path(checkpoints_with_recurrents(tmp_path_factory.mktemp("pairs"))) / str(request.param))


def trained_on(checkpoint: Checkpoint) -> list[Pair]:
    """The same pairs as training makes them."""
    text = ParallelText([LONG[0], SHORT[0]], [LONG[1], SHORT[1]])
    return pairs(text, checkpoint.tokenizer, 256)  # type: ignore[arg-type]


def test_the_pair_is_cut_as_in_training(checkpoint: Checkpoint) -> None:
    batch, data = training_batch(checkpoint, [LONG, SHORT]), trained_on(checkpoint)
    labels = checkpoint.tokenizer.labels  # type: ignore[union-attr]
    for i, pair in enumerate(data):
        n = pair.n_written
        assert [text for text in batch.source[i] if text != batch.pad] == labels(pair.source)
        assert list(batch.read[i][:n]) == labels(pair.target[:-1])
        assert list(batch.labels[i][:n]) == labels(pair.target[1:])
        assert batch.source[i][len(pair.source) - 1] == "</s>"
        assert batch.counted[i].tolist() == [True] * n + [False] * (len(batch.labels[i]) - n)


def test_the_loss_is_the_one_of_training(checkpoint: Checkpoint) -> None:
    batch, data = training_batch(checkpoint, [LONG, SHORT]), trained_on(checkpoint)
    pad_id = checkpoint.model.config.pad_id
    with torch.no_grad():
        summed = teacher_forced(
            checkpoint.model,
            pad([p.source for p in data], pad_id),
            pad([p.target for p in data], pad_id),  # type: ignore[arg-type]
        ).sum()
    assert batch.loss == pytest.approx(-float(summed) / sum(p.n_written for p in data), rel=1e-5)
    assert batch.loss_with_padding == pytest.approx(batch.losses.sum() / batch.losses.size)


def test_counting_padding_makes_the_loss_depend_on_the_company(checkpoint: Checkpoint) -> None:
    alone, together = training_batch(checkpoint, [SHORT]), training_batch(checkpoint, [LONG, SHORT])
    n = int(alone.counted.sum())
    np.testing.assert_allclose(together.losses[1][:n], alone.losses[0], atol=1e-4)
    assert alone.loss == alone.loss_with_padding
    assert together.loss != pytest.approx(together.loss_with_padding, rel=1e-3)


def test_the_losses_are_those_of_a_forced_run(checkpoint: Checkpoint) -> None:
    batch = training_batch(checkpoint, [SHORT])
    run = translate(checkpoint, SHORT[0], forced=SHORT[1])
    np.testing.assert_allclose(batch.losses[0], [-np.log(step.probability) for step in run.steps], atol=1e-4)


def test_references_are_of_the_shipped_examples() -> None:
    assert set(REFERENCES) == set(load(SHIPPED).examples)


def test_bad_pairs_are_refused_in_a_sentence(checkpoint: Checkpoint) -> None:
    with pytest.raises(InputError, match="source is empty"):
        training_batch(checkpoint, [("", "Hund")])
    with pytest.raises(InputError, match="target has"):
        training_batch(checkpoint, [("dog", "Hund " * 300)])


def test_a_model_without_padding_has_no_batch_of_two() -> None:
    model = Recurrent(RecurrentConfig(11, 11, hidden=3, pad_id=-1))
    shipped = load(SHIPPED)
    with pytest.raises(CheckpointError, match="knows no padding"):
        training_batch(Checkpoint("tutorial", model, shipped.tokenizer), [SHORT])
