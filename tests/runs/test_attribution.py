"""Attribution of what a checkpoint did: the right ids, axes and refusals."""

import numpy as np
import pytest

from transformer.checkpoint import load
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.attribution import deletion
from transformer.runs.translate import Translation, translate

SENTENCE = "Two dogs run."


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load("checkpoints/multi30k-en-de")


@pytest.fixture(scope="module")
def translation(checkpoint: Checkpoint) -> Translation:
    return translate(checkpoint, SENTENCE)


def test_the_word_that_a_word_translates_is_the_one_that_it_needs(
    checkpoint: Checkpoint, translation: Translation
) -> None:
    for how in ("hidden", "unknown", "removed"):
        found = deletion(checkpoint, translation, how, words=True, prefix=False)
        assert found.source.texts[:2] == ("Two", "dogs")
        assert found.steps.texts[:2] == ("Zwei", "Hunde")
        np.testing.assert_array_equal(found.values[:2].argmax(1), [0, 1])


def test_probabilities_are_those_of_the_steps(checkpoint: Checkpoint, translation: Translation) -> None:
    """What is lost is lost from what the translation says of each token; hiding the whole source loses more."""
    found = deletion(checkpoint, translation)
    assert found.steps == translation.axes.written
    assert len(found.prefix) == len(found.steps)
    assert found.prefix.texts[1:] == found.steps.texts[:-1]
    assert found.source_share is not None
    assert ((found.source_share > 0) & (found.source_share < 1)).all()
