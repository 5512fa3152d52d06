"""How far methods on letters can be trusted: against letters made unknown one set at a time."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from tests.classifiers import sequence_checkpoint
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.sequences.classify import Classification, classify, read
from transformer.runs.sequences.trust import MUTATIONS, WEIGHTS, letter_scores, letter_trust
from transformer.sequences.folding import folded

SEQUENCE = "ACGTTGCANGTGTCAGTTGACGT"


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return sequence_checkpoint(double=True)


@pytest.fixture(scope="module")
def run(checkpoint: Checkpoint) -> Classification:
    return classify(checkpoint, SEQUENCE)


def log_odds(checkpoint: Checkpoint, text: str, target: int) -> float:
    model: Any = checkpoint.model
    with torch.no_grad():
        p = (model(torch.tensor([read(checkpoint, text).ids]))[0] / 1.7).softmax(-1)[target]
    return float((p / (1 - p)).log())


def test_letters_named_first_are_made_unknown_or_left_alone(checkpoint: Checkpoint, run: Classification) -> None:
    target, n = run.predicted, len(SEQUENCE)
    scores = {MUTATIONS: np.cos(np.arange(n) * 2.0), "mine": np.sin(np.arange(n) * 3.0)}
    scores["undefined"] = np.where(np.arange(n) == 4, np.nan, scores["mine"])
    found = letter_trust(checkpoint, run, scores, target)
    whole = log_odds(checkpoint, SEQUENCE, target)

    def without(taken: set[int]) -> float:
        text = "".join("N" if i in taken else letter for i, letter in enumerate(SEQUENCE))
        return whole - log_odds(checkpoint, text, target)

    orders = {"mine": np.argsort(-scores["mine"]), "reversed": np.argsort(scores[MUTATIONS])}
    for name, order in orders.items():
        for i, count in enumerate((2, 5, 7, 9, 12)):  # 10 to 50 % of 23, halves rounded up
            first = set(order[:count].tolist())
            assert found[name].comprehensiveness[i] == pytest.approx(without(first), abs=1e-9)
            assert found[name].sufficiency[i] == pytest.approx(without(set(range(n)) - first), abs=1e-9)
    assert found["mine"].spearman == pytest.approx(spearmanr(scores["mine"], scores[MUTATIONS]).statistic, abs=1e-9)
    assert (found["mine"].rows, found["mine"].correlated) == (1, 1)
    assert found[MUTATIONS].spearman == pytest.approx(1.0)
    assert (found["undefined"].rows, found["undefined"].correlated) == (0, 0)
    assert found["random"].rows == 1


def test_every_method_scores_every_letter(checkpoint: Checkpoint, run: Classification) -> None:
    """Mutations first: the mean over the other letters of what the class loses, positive where the letter is for it."""
    target = run.predicted
    scores = letter_scores(checkpoint, run, target)
    assert list(scores) == [MUTATIONS, "integrated_gradients", WEIGHTS]
    assert all(score.shape == (len(SEQUENCE),) for score in scores.values())
    for i in (3, 8):
        whole = log_odds(checkpoint, SEQUENCE, target)
        lost = [
            whole - log_odds(checkpoint, f"{SEQUENCE[:i]}{letter}{SEQUENCE[i + 1 :]}", target)
            for letter in "ACGT"
            if letter != SEQUENCE[i]
        ]
        assert scores[MUTATIONS][i] == pytest.approx(np.mean(lost), abs=1e-9)
    pooled = folded(run.record["pooling"].all_weights().mean((0, 1)), run.spans, len(SEQUENCE))
    np.testing.assert_allclose(scores[WEIGHTS], pooled.relative, rtol=1e-6)
    assert list(letter_scores(checkpoint, run, target, [WEIGHTS])) == [MUTATIONS, WEIGHTS]
