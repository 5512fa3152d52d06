"""How a training pair is cut: as training does it, and padding is not counted."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.recurrents import ADDITIVE, SHIPPED, checkpoints_with_recurrents
from transformer import Checkpoint, load, translate
from transformer.errors import CheckpointError, InputError
from transformer.lessons.architectures.pairs import REFERENCES, training_batch
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.search import teacher_forced
from transformer.text.batch import pad
from transformer.training.translation import Pair, ParallelText, pairs

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
