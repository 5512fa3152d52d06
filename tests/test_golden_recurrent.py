"""The shipped recurrent translators say today what they said when they were shipped, and are what their cards say.

Made by `python -m transformer translate checkpoints/NAME < tests/golden/sentences.txt > tests/golden/NAME.txt`; made
anew whenever a checkpoint is replaced.
"""

from pathlib import Path

import numpy as np
import pytest

from transformer import Checkpoint, load, translate
from transformer.nn.recurrent import Recurrent
from transformer.runs.translate import PAST_SOURCE

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
SHIPPED = HERE.parent / "checkpoints"
KINDS = {"multi30k-en-de-rnn": "additive", "multi30k-en-de-rnn-location": "location"}


@pytest.fixture(scope="module", params=sorted(KINDS))
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    return load(SHIPPED / str(request.param))


def test_translations_are_the_golden_ones(checkpoint: Checkpoint) -> None:
    sentences = (GOLDEN / "sentences.txt").read_text("utf-8").splitlines()
    expected = (GOLDEN / f"{checkpoint.name}.txt").read_text("utf-8").splitlines()
    assert [translate(checkpoint, sentence).text for sentence in sentences] == expected


def test_one_head_looks_at_the_source(checkpoint: Checkpoint) -> None:
    assert isinstance(checkpoint.model, Recurrent)
    kind = checkpoint.model.config.attention
    assert kind == KINDS[checkpoint.name]
    run = translate(checkpoint, checkpoint.examples[0])
    assert run.record.sites == ("decoder.cross",)
    attention = run.record["decoder.cross"]
    assert attention.n_heads == 1
    np.testing.assert_allclose(attention.weights(0).sum(1), 1.0, atol=1e-5)
    assert (attention.keys.texts[-1] == PAST_SOURCE) is (kind == "location")


def test_the_additive_one_follows_the_words() -> None:
    """“Hunde” is written while it looks at “dogs” more than at all else together."""
    run = translate(load(SHIPPED / "multi30k-en-de-rnn"), "Three dogs are running through the snow.")
    picture = run.record["decoder.cross"].picture(0, words=True)
    assert picture.values[picture.queries.texts.index("Hunde"), picture.keys.texts.index("dogs")] > 0.5


def test_its_pieces_are_those_of_the_transformer(checkpoint: Checkpoint) -> None:
    assert checkpoint.folder is not None
    own, other = (folder / "tokenizer.model" for folder in (checkpoint.folder, SHIPPED / "multi30k-en-de"))
    assert own.read_bytes() == other.read_bytes()
