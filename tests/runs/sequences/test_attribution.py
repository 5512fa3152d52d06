"""Effects of letters: every mutation against a run of its own, gradients against their sum."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.attribution.path_integral import FIRST_POINTS
from transformer.errors import AttributionError, InputError
from transformer.layers.masks import Mask
from transformer.runs.sequences.attribution import (
    MAX_MUTATED,
    SHARES,
    WEIGHTS,
    integrated_gradients,
    log_odds,
    mutations,
    unknown_letters,
    window_relevance,
    window_shares,
)
from transformer.runs.sequences.classify import classify, read
from transformer.sequences.folding import folded

SEQUENCE = "ACGTTGCANGTACCAGTTGACGT"


def test_log_odds_are_of_the_calibrated_probability():
    logits = torch.randn(5, 3, dtype=torch.float64)
    p = (logits / 1.7).softmax(1)[:, 1]
    torch.testing.assert_close(log_odds(logits, 1.7, 1), (p / (1 - p)).log())


def test_each_mutation_is_the_change_that_a_run_of_its_own_shows(monkeypatch):
    monkeypatch.setattr("transformer.runs.sequences.attribution.LETTERS_AT_ONCE", 7 * 23)  # several batches
    checkpoint = sequence_checkpoint(double=True)
    letters = read(checkpoint, SEQUENCE)
    seen: list[float] = []
    found = mutations(checkpoint, letters, 2, seen.append)

    def answer(text: str) -> float:
        logits = checkpoint.model.outputs(torch.tensor([read(checkpoint, text).ids]))["logits"]
        return log_odds(logits, 1.7, 2).item()

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
    assert fine.contribution.shape == (23,)
    assert all(parameter.grad is None for parameter in checkpoint.model.parameters())


def test_points_are_added_until_the_gap_is_small_and_are_told(monkeypatch):
    checkpoint = sequence_checkpoint(double=True, activation="gelu")
    letters = read(checkpoint, SEQUENCE)
    seen: list[float] = []
    monkeypatch.setattr("transformer.runs.sequences.attribution.LEAST", 1e-9)
    monkeypatch.setattr("transformer.runs.sequences.attribution.CLOSE", 1e-6)
    found = integrated_gradients(checkpoint, letters, 0, progress=seen.append)
    assert found.converged
    assert found.gap <= 1e-6 * abs(found.difference)
    assert found.points > FIRST_POINTS
    assert seen == sorted(seen)
    assert seen[-1] == 1
    monkeypatch.setattr("transformer.attribution.path_integral.MOST_POINTS", FIRST_POINTS)
    cut = integrated_gradients(checkpoint, letters, 0)
    assert (cut.points, cut.converged) == (FIRST_POINTS, False)


@pytest.mark.parametrize(("places", "shares"), [([0.5], [1.0]), ([0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5], [0.5, 0.5])])
def test_gradients_are_taken_on_the_line_from_the_mean_of_all_known_letters(monkeypatch, places, shares):
    """The definition, one point of Gauss and Legendre after the other; the unknown letter is no part of the mean."""
    monkeypatch.setattr("transformer.runs.sequences.attribution.LETTERS_AT_ONCE", 4 * 23)  # a batch a point
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
    np.testing.assert_allclose(found.contribution, expected.numpy(), rtol=0, atol=1e-12)


def test_long_sequences_are_refused():
    checkpoint = sequence_checkpoint()
    letters = read(checkpoint, "ACGT" * (MAX_MUTATED // 4) + "A")
    for effect in (mutations, integrated_gradients, unknown_letters):
        with pytest.raises(InputError, match="at most 512"):
            effect(checkpoint, letters, 0)


@pytest.mark.kernels
def test_a_letter_that_is_unknown_is_read_again() -> None:
    checkpoint = sequence_checkpoint(double=True)

    def answer(text: str) -> float:
        ids = torch.tensor([read(checkpoint, text).ids])
        return log_odds(checkpoint.model.outputs(ids)["logits"], 1.7, 2).item()

    letters = read(checkpoint, SEQUENCE)
    lost = unknown_letters(checkpoint, letters, 2)
    for i in range(23):
        expected = answer(SEQUENCE) - answer(f"{SEQUENCE[:i]}N{SEQUENCE[i + 1 :]}")
        assert lost[i] == pytest.approx(expected, abs=1e-9)
    with torch.no_grad():
        next(checkpoint.model.parameters()).fill_(torch.nan)
    spoilt = unknown_letters(checkpoint, letters, 2)
    expected = [0.0 if letter == "N" else np.nan for letter in SEQUENCE]  # N already: whatever the model computes
    np.testing.assert_array_equal([lost[8], *spoilt], [0.0, *expected])


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_shares_are_weighed_as_the_pooling_weighs_windows(pooling: str) -> None:
    """Raw weights multiplied through two layers and the pooling, the residual counted as one half."""
    checkpoint = sequence_checkpoint(double=True, pooling=pooling)
    run = classify(checkpoint, SEQUENCE)
    n = len(run.spans)
    first, second = ((run.record[f"encoder.{i}.self"].all_weights().mean(0) + np.eye(n)) / 2 for i in range(2))
    pooled = run.record["pooling"].all_weights().mean((0, 1)) if pooling == "attention" else np.full(n, 1 / n)
    expected = folded(pooled @ second @ first, run.spans, 23)
    np.testing.assert_allclose(window_shares(checkpoint, run, "rollout").share, expected.share, atol=1e-9)
    np.testing.assert_allclose(window_shares(checkpoint, run, WEIGHTS).share, folded(pooled, run.spans, 23).share)
    for method in SHARES:
        assert window_shares(checkpoint, run, method).total.sum() == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(AttributionError, match="no method gradients"):
        window_shares(checkpoint, run, "gradients")


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_relevance_follows_the_rule_through_layers_and_pooling(pooling: str) -> None:
    """Slopes by a zero that is added to each table of weights, multiplied out as the rules say."""
    checkpoint = sequence_checkpoint(double=True, pooling=pooling)
    model: Any = checkpoint.model
    run = classify(checkpoint, SEQUENCE)
    tables = {site: torch.tensor(run.record[site].all_weights()) for site in run.record.sites}
    added = {site: torch.zeros_like(table).requires_grad_() for site, table in tables.items()}
    hooks = []
    for site, more in added.items():

        def put(module: Any, inputs: Any, output: Any, more: torch.Tensor = more) -> torch.Tensor:
            return output + more @ inputs[2]

        hooks.append(model.attention_sites()[site].register_forward_hook(put))
    logits = model(torch.tensor([run.letters.ids]))[0] / 1.7
    for hook in hooks:
        hook.remove()
    log_odds = logits[2] - logits[[i for i in range(len(logits)) if i != 2]].logsumexp(0)
    slopes = torch.autograd.grad(log_odds, list(added.values()))
    kept = {
        site: (table * slope).clamp(min=0).mean(0).numpy()
        for (site, table), slope in zip(tables.items(), slopes, strict=True)
    }
    n = len(run.spans)
    grown = np.eye(n)
    for number in range(2):
        grown = grown + kept[f"encoder.{number}.self"] @ grown
    grown = grown - np.eye(n)
    normal = np.array([row / row.sum() if row.sum() else row for row in grown]) + np.eye(n)
    row = (kept["pooling"].mean(0) if pooling == "attention" else np.full(n, 1 / n)) @ normal
    expected = folded(row / row.sum(), run.spans, 23)
    np.testing.assert_allclose(window_relevance(checkpoint, run, 2).share, expected.share, atol=1e-9)
    assert not np.allclose(expected.share, window_relevance(checkpoint, run, 0).share, atol=1e-6)
