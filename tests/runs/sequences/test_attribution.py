"""Effects of letters: every mutation against a run of its own, gradients against their sum."""

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.errors import InputError
from transformer.explain.attribution.path_integral import FIRST_POINTS
from transformer.nn.masks import Mask
from transformer.runs.sequences.attribution import MAX_MUTATED, integrated_gradients, mutations
from transformer.runs.sequences.classify import read

SEQUENCE = "ACGTTGCANGTACCAGTTGACGT"


def log_odds(logits: torch.Tensor, target: int) -> float:
    """Of the only row, calibrated by the small checkpoint's temperature."""
    p = (logits[0] / 1.7).softmax(0)[target]
    return (p / (1 - p)).log().item()


def test_each_mutation_is_the_change_that_a_run_of_its_own_shows(monkeypatch):
    monkeypatch.setattr("transformer.runs.sequences.attribution.LETTERS_AT_ONCE", 7 * 23)  # several batches
    checkpoint = sequence_checkpoint(double=True)
    letters = read(checkpoint, SEQUENCE)
    seen: list[float] = []
    found = mutations(checkpoint, letters, 2, seen.append)

    def answer(text: str) -> float:
        logits = checkpoint.model.outputs(torch.tensor([read(checkpoint, text).ids]))["logits"]
        return log_odds(logits, 2)

    for place, new in ((0, "T"), (8, "A"), (22, "G"), (12, "C")):
        mutant = SEQUENCE[:place] + new + SEQUENCE[place + 1 :]
        expected = answer(mutant) - answer(SEQUENCE)
        assert found.change["ACGT".index(new), place] == pytest.approx(expected, abs=1e-12)
    assert found.change[found.letters.index("A"), 0] == 0
    np.testing.assert_allclose(found.effect[0], np.abs(found.change[1:, 0]).mean())
    np.testing.assert_allclose(found.effect[8], np.abs(found.change[:, 8]).mean())  # N may become any of four
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_integrated_gradients_add_up_to_the_difference():
    checkpoint = sequence_checkpoint(double=True, activation="gelu")
    letters = read(checkpoint, SEQUENCE)
    coarse, fine = (integrated_gradients(checkpoint, letters, 0, points) for points in (2, 256))
    assert abs(fine.difference) > 1e-3
    assert fine.gap < 1e-2 * abs(fine.difference)
    assert fine.gap < coarse.gap
    assert fine.added.shape == (23,)
    assert all(parameter.grad is None for parameter in checkpoint.model.parameters())


def test_points_are_added_until_the_gap_is_small_and_are_told(monkeypatch):
    checkpoint = sequence_checkpoint(double=True, activation="gelu")
    letters = read(checkpoint, SEQUENCE)
    seen: list[float] = []
    monkeypatch.setattr("transformer.runs.class_reasons.LEAST", 1e-9)
    monkeypatch.setattr("transformer.runs.class_reasons.CLOSE", 1e-6)
    found = integrated_gradients(checkpoint, letters, 0, progress=seen.append)
    assert found.converged
    assert found.gap <= 1e-6 * abs(found.difference)
    assert found.points > FIRST_POINTS
    assert seen == sorted(seen)
    assert seen[-1] == 1
    monkeypatch.setattr("transformer.explain.attribution.path_integral.MOST_POINTS", FIRST_POINTS)
    cut = integrated_gradients(checkpoint, letters, 0)
    assert (cut.points, cut.converged) == (FIRST_POINTS, False)


@pytest.mark.parametrize(("places", "shares"), [([0.5], [1.0]), ([0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5], [0.5, 0.5])])
def test_gradients_are_taken_on_the_line_from_the_mean_of_all_known_letters(monkeypatch, places, shares):
    """The definition, one point of Gauss and Legendre after the other; the unknown letter is no part of the mean."""
    monkeypatch.setattr("transformer.runs.class_reasons.POSITIONS_AT_ONCE", 23)  # a batch a point
    checkpoint = sequence_checkpoint(double=True, activation="gelu")
    model, letters = checkpoint.model, read(checkpoint, SEQUENCE)
    table = model.embedding.weight.detach()
    end = table[[["A", "C", "G", "T", "N"].index(letter) for letter in SEQUENCE]]
    start = (table[0] + table[1] + table[2] + table[3]) / 4
    expected = torch.zeros(23, dtype=torch.float64)
    for place, share in zip(places, shares, strict=True):
        point = (start + place * (end - start)).requires_grad_()
        logits = model.decide(point[None], Mask())[0] / 1.7
        (logits[1] - torch.logsumexp(logits[[0, 2]], 0)).backward()
        expected += share * ((end - start) * point.grad).sum(1)
    found = integrated_gradients(checkpoint, letters, 1, len(places))
    np.testing.assert_allclose(found.added, expected.numpy(), rtol=0, atol=1e-12)


def test_long_sequences_are_refused():
    checkpoint = sequence_checkpoint()
    letters = read(checkpoint, "ACGT" * (MAX_MUTATED // 4) + "A")
    for effect in (mutations, integrated_gradients):
        with pytest.raises(InputError, match="at most 512"):
            effect(checkpoint, letters, 0)
