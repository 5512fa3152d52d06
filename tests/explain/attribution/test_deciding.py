"""The word that decides is the one whose removal, run by hand, costs most; a head is held against it row by row."""

import numpy as np
import pytest

from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE, WRITTEN
from transformer import load, translate
from transformer.explain.attribution.deciding import deciding, deciding_of
from transformer.explain.attribution.deletion import deletion
from transformer.runs import attribution


@pytest.mark.kernels
@pytest.mark.parametrize("dialect", ["torch", "pre-norm without biases"])
def test_the_deciding_word_is_the_one_without_which_a_run_by_hand_loses_most(dialect: str) -> None:
    made = reference.model(dialect)
    whole = reference.log_probs_of(reference.run(made, SOURCE, READ))
    lost = np.stack(
        [whole - reference.log_probs_of(reference.run(made, SOURCE, READ, hidden=[j])) for j in range(len(SOURCE))], 1
    )
    answer = deletion(reference.scored_sequence(made), prefix=False)
    least = float(np.sort(lost[:, :-1].max(axis=1))[1:3].mean())  # between two; the source ends with its end token
    found = deciding_of(answer.of_source, answer.steps.special, answer.source.special, least)
    expected = []
    for step, written in enumerate(WRITTEN):
        column = max(range(len(SOURCE) - 1), key=lambda j: lost[step, j])
        expected.append(column if lost[step, column] > least and written > 2 else -1)
    assert list(found.columns) == expected
    assert {-1} < set(expected)
    np.testing.assert_allclose(found.lost, lost[:, :-1].max(axis=1), atol=1e-9)


def test_a_head_hits_where_its_largest_weight_stands_on_the_deciding_word() -> None:
    lost = np.array([[3.0, 0.2, 9.0], [np.nan, 1.5, 0.0], [0.9, 0.8, 0.0], [5.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    found = deciding_of(lost, [False, False, False, False, True], [False, False, True])
    assert list(found.columns) == [0, 1, -1, 0, -1]  # the end token neither decides nor is decided
    weights = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [1, 0, 0], [0.4, 0.3, 0.3], [0, 1, 0]], dtype=float)
    assert found.hits(weights) == (2, 3)
    nothing = deciding_of(np.zeros((2, 0)), [False, False], [])
    assert (list(nothing.columns), nothing.hits(np.zeros((2, 1)))) == ([-1, -1], (0, 0))


@pytest.mark.parametrize("name", ["multi30k-en-de", "multi30k-en-de-rnn"])
def test_words_of_a_translation_are_decided_as_sources_says(name: str) -> None:
    checkpoint = load(f"checkpoints/{name}")
    run = translate(checkpoint, checkpoint.examples[1])
    found = attribution.deciding(checkpoint, run)
    how = "hidden" if name == "multi30k-en-de" else "removed"
    answer = attribution.deletion(checkpoint, run, how, words=True)
    assert list(found.columns) == list(deciding(answer).columns)
    assert max(found.columns) > 0
