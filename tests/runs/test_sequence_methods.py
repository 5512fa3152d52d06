"""Being without letters or windows: against runs over the windows that are left, one part at a time."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.errors import AttributionError, InputError
from transformer.layers.masks import Mask
from transformer.runs.classify import classify, read
from transformer.runs.sequence_methods import SHARES, Deleted, deletions, window_relevance, window_shares
from transformer.sequences.folding import folded

SEQUENCE = "ACGTTGCANGTACCAGTTGACGT"


def log_odds_of(logits: torch.Tensor) -> float:
    """Of the class 2, calibrated by the small checkpoint's temperature."""
    p = (logits / 1.7).softmax(-1)[2]
    return (p / (1 - p)).log().item()


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_what_is_hidden_is_not_there_for_attention_nor_pooling(pooling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of the windows that are left, run as if there had been no others."""
    monkeypatch.setattr("transformer.runs.sequence_methods.LETTERS_AT_ONCE", 4 * 23)  # several batches
    checkpoint = sequence_checkpoint(double=True, pooling=pooling)
    model: Any = checkpoint.model
    letters = read(checkpoint, SEQUENCE)
    spans = model.windows(23)

    def left(windows: list[int]) -> float:
        with torch.no_grad():
            x = model.encoder_inputs(torch.tensor([letters.ids]))[0][:, windows]
            for block in model.encoder:
                x = block(x, Mask())
            return log_odds_of(model.logits(x, Mask())[0])

    whole, told = left(list(range(len(spans)))), list[float]()
    hidden = deletions(checkpoint, letters, 2, "hidden", told.append)
    for i in range(23):
        others = [j for j, span in enumerate(spans) if not span.start <= i < span.start + span.width]
        assert hidden.lost[i] == pytest.approx(whole - left(others), abs=1e-9)
    assert told == sorted(told)
    assert told[-1] == 1
    found = deletions(checkpoint, letters, 2, "window")
    assert found.of_windows is not None
    for j in range(len(spans)):
        expected = whole - left([other for other in range(len(spans)) if other != j])
        assert found.of_windows[j] == pytest.approx(expected, abs=1e-9)
    shared = [sum(found.of_windows[j] / s.width for j, s in enumerate(spans) if s.start <= i < s.start + s.width)
              for i in range(23)]  # fmt: skip
    np.testing.assert_allclose(found.lost, shared, atol=1e-12)


@pytest.mark.kernels
def test_a_letter_that_is_unknown_or_taken_out_is_read_again() -> None:
    checkpoint = sequence_checkpoint(double=True)

    def answer(text: str) -> float:
        return log_odds_of(checkpoint.model.outputs(torch.tensor([read(checkpoint, text).ids]))["logits"][0])

    letters, whole = read(checkpoint, SEQUENCE), answer(SEQUENCE)
    unknown, removed = (deletions(checkpoint, letters, 2, how).lost for how in ("unknown", "removed"))
    for i in range(23):
        assert unknown[i] == pytest.approx(whole - answer(f"{SEQUENCE[:i]}N{SEQUENCE[i + 1 :]}"), abs=1e-9)
        assert removed[i] == pytest.approx(whole - answer(SEQUENCE[:i] + SEQUENCE[i + 1 :]), abs=1e-9)
    with torch.no_grad():
        next(checkpoint.model.parameters()).fill_(torch.nan)
    spoilt = deletions(checkpoint, letters, 2, "unknown").lost
    expected = [0.0 if letter == "N" else np.nan for letter in SEQUENCE]  # N already: whatever the model computes
    np.testing.assert_array_equal([unknown[8], *spoilt], [0.0, *expected])


def test_short_and_long_sequences_are_answered_or_refused() -> None:
    checkpoint = sequence_checkpoint(double=True)
    short = read(checkpoint, "ACGTA")  # each of width 5's letters is in its one window; the middle one in all windows
    found: Deleted = deletions(checkpoint, short, 0)
    np.testing.assert_array_equal(np.isnan(found.lost), [False, False, True, False, False])
    with pytest.raises(InputError, match="5"):
        deletions(checkpoint, short, 0, "removed")
    with pytest.raises(InputError, match="at most 512"):
        deletions(checkpoint, read(checkpoint, "ACGT" * 129), 0)


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
