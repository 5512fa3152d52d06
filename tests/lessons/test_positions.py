"""Positions: every table against its formula, the rotation, rotary and ALiBi against their definitions, order."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedmap import Checkpoint, load, translate
from heedmap.errors import CheckpointError, ConfigError, InputError
from heedmap.lessons import positions
from heedmap.lessons.pairs import REFERENCES, training_batch
from heedmap.lessons.sentences import Sentence
from heedmap.nn.common import pad
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.search import teacher_forced
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from tests.recurrents import ADDITIVE, SHIPPED, checkpoints_with_recurrents

SENTENCE = Sentence.of((4, 5, 6, 4, 7), tuple("abcad"))


def model(**options: Any) -> Any:
    sizes: dict[str, Any] = dict(source_vocab=11, target_vocab=11, d_model=14, n_heads=2, d_ff=9, max_length=17)
    return Seq2Seq(Seq2SeqConfig.of(n_encoder_layers=2, n_decoder_layers=1, **(sizes | options))).eval()


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
    table = positions.position_table(variant, 13, d, base)
    expected = [[by_hand(variant, p, j, d, base) for j in range(d)] for p in range(13)]
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-12)


def test_a_learned_table_is_the_model_s_own():
    assert positions.stored_table(model()) is None
    made = model(positions="learned")
    np.testing.assert_array_equal(positions.stored_table(made), made.source_positions.table.detach().double().numpy())


@pytest.mark.parametrize("k", [0, 1, 5])
def test_one_matrix_moves_every_position_by_k(k: int):
    table = positions.position_table("paper", 23, 14)
    assert positions.rotation_errors(table, k).max() < 1e-12
    np.testing.assert_allclose(positions.rotation(k, 14) @ positions.rotation(k, 14).T, np.eye(14), atol=1e-12)
    if k:
        assert positions.rotation_errors(positions.position_table("doubled", 23, 14), k).max() > 0.1


def test_likeness_counts_by_hand():
    table = np.array([[1.0, 0.0], [0.5, 1.0], [2.0, 0.5]])
    products = table @ table.T  # from 0: 1, 0.5, 2; at distance 1: 0.5 and 1.5; at distance 0: 1, 1.25, 4.25
    assert positions.likeness(products) == (3.25, 1, 2)


def test_the_trained_table_is_no_noise_and_knows_near_from_far():
    """Position 0 is like the next ones and unlike those ten steps away."""
    table, sentences = positions.trained_table()
    assert table.shape == (64, 64)
    assert len(sentences) == 64
    assert (np.diff(sentences) <= 0).all()

    def cosine(rows: np.ndarray, distance: int) -> float:
        unit = rows[:30] / np.linalg.norm(rows[:30], axis=1, keepdims=True)
        return float(np.diag(unit @ unit.T, distance).mean())

    assert cosine(table, 1) > 0.9
    assert cosine(table, 1) > cosine(table, 4) + 0.2 > cosine(table, 15) + 0.4


def test_rotary_is_a_product_of_complex_numbers_and_sees_distances_alone():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(7, 10))
    angles = np.arange(7)[:, None] / 10_000 ** (np.arange(0, 10, 2) / 10)
    turned = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    np.testing.assert_allclose(positions.rotated(x)[:, 0::2], turned.real, atol=1e-12)
    np.testing.assert_allclose(positions.rotated(x)[:, 1::2], turned.imag, atol=1e-12)
    q, k = (np.repeat(draw.normal(size=(1, 10)), 7, axis=0) for _ in range(2))
    scores = positions.rotated(q) @ positions.rotated(k).T
    for distance in (-3, 0, 2):
        assert np.ptp(np.diag(scores, distance)) < 1e-12


@pytest.mark.parametrize("how", positions.LATER)
def test_equal_words_attend_alike_only_without_positions(how: Any):
    np.testing.assert_array_equal(positions.alibi(4, 0.5)[1], [-0.5, 0, -0.5, -1])
    weights = positions.example_weights(how, [0, 1, 2, 0, 1], 6, seed=1)
    np.testing.assert_allclose(weights.sum(1), 1.0)
    assert np.allclose(weights[0], weights[3]) == (how == "none")


def test_order_is_nothing_without_positions():
    made = model()
    order = [3, 1, 4, 0, 2]
    assert positions.shuffle_gaps(made, SENTENCE, order, with_positions=False).max() < 1e-12
    found = positions.shuffle_gaps(made, SENTENCE, order, with_positions=True)
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


def test_a_table_too_large_for_the_lesson_is_refused():
    with pytest.raises(ConfigError, match="d_model=2000"):
        positions.position_table("paper", 4, 2000)


LONG = ("A man in a blue shirt is riding a bicycle.", "Ein Mann in einem blauen Hemd fährt Fahrrad.")
SHORT = ("Two dogs run.", "Zwei Hunde rennen.")


@pytest.fixture(scope="module", params=["multi30k-en-de", ADDITIVE])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(Path(checkpoints_with_recurrents(tmp_path_factory.mktemp("pairs"))) / str(request.param))


def test_the_pair_is_cut_and_its_loss_counted_as_in_training(checkpoint: Checkpoint) -> None:
    batch = training_batch(checkpoint, [LONG, SHORT])
    tokenizer, pad_id = checkpoint.tokenizer, checkpoint.model.config.pad_id  # type: ignore[union-attr]
    data = [(tokenizer.source_ids(source), tokenizer.target_ids(target)) for source, target in (LONG, SHORT)]
    for i, (source, target) in enumerate(data):
        n = len(target) - 1
        assert [text for text in batch.source[i] if text != batch.pad] == tokenizer.labels(source)
        assert list(batch.read[i][:n]) == tokenizer.labels(target[:-1])
        assert list(batch.labels[i][:n]) == tokenizer.labels(target[1:])
        assert batch.source[i][len(source) - 1] == "</s>"
        assert batch.counted[i].tolist() == [True] * n + [False] * (len(batch.labels[i]) - n)
    sides = [pad(side, pad_id) for side in zip(*data, strict=True)]
    with torch.no_grad():
        summed = teacher_forced(checkpoint.model, *sides).sum()  # type: ignore[arg-type]
    assert batch.loss == pytest.approx(-float(summed) / sum(len(target) - 1 for _, target in data), rel=1e-5)
    assert batch.loss_with_padding == pytest.approx(batch.losses.sum() / batch.losses.size)
    run = translate(checkpoint, SHORT[0], forced=SHORT[1])
    own = batch.losses[1][batch.counted[1]]
    np.testing.assert_allclose(own, [-np.log(step.probability) for step in run.steps], atol=1e-4)


def test_counting_padding_makes_the_loss_depend_on_the_company(checkpoint: Checkpoint) -> None:
    alone, together = training_batch(checkpoint, [SHORT]), training_batch(checkpoint, [LONG, SHORT])
    n = int(alone.counted.sum())
    np.testing.assert_allclose(together.losses[1][:n], alone.losses[0], atol=1e-4)
    assert alone.loss == alone.loss_with_padding
    assert together.loss != pytest.approx(together.loss_with_padding, rel=1e-3)


def test_bad_pairs_are_refused_in_a_sentence(checkpoint: Checkpoint) -> None:
    tutorial = Checkpoint(
        "tutorial",
        Recurrent(RecurrentConfig.of(source_vocab=11, target_vocab=11, hidden=3, pad_id=-1)),
        load(SHIPPED).tokenizer,
    )
    for made, pair, message in (
        (checkpoint, ("", "Hund"), "source is empty"),
        (checkpoint, ("dog", "Hund " * 300), "target has"),
        (tutorial, SHORT, "knows no padding"),
    ):
        with pytest.raises((InputError, CheckpointError), match=message):
            training_batch(made, [pair])
    assert set(REFERENCES) == set(load(SHIPPED).examples)
