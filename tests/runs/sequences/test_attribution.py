"""Effects of letters: every mutation against a run of its own."""

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.errors import InputError
from transformer.runs.sequences.attribution import MAX_MUTATED, mutations
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


def test_long_sequences_are_refused():
    checkpoint = sequence_checkpoint()
    letters = read(checkpoint, "ACGT" * (MAX_MUTATED // 4) + "A")
    with pytest.raises(InputError, match="at most 512"):
        mutations(checkpoint, letters, 0)
