"""Attribution of what a checkpoint did: the right ids, axes and refusals."""

import time
from dataclasses import replace

import numpy as np
import pytest

from transformer.attention.interventions.active import intervening
from transformer.attention.interventions.value import Intervention
from transformer.checkpoint import load
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import AttributionError
from transformer.explain.attribution.methods import METHODS
from transformer.explain.attribution.scored_sequence import ScoredSequence
from transformer.runs.any_model import run_any
from transformer.runs.attribution import cost, deletion
from transformer.runs.translate import Translation, translate
from transformer.sites import Site
from transformer.text.vocabulary import IdTokenizer, SpecialIds

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


def test_a_translation_answers_in_a_notebook(checkpoint: Checkpoint, translation: Translation) -> None:
    """Every method on the shipped translator, gradients too although its passes keep none; in words, on one axis."""
    for method in METHODS:
        found = translation.attribution(checkpoint, method, words=True)
        assert found.source.texts[:3] == ("Two", "dogs", "run")
        assert np.isfinite(found.values).all()
        words = slice(-1) if method == "integrated_gradients" else slice(None)  # it moves the end token, too
        assert method == "rollout" or found.of_source[1, words].argmax() == 1  # "Hunde" comes from "dogs"
    np.testing.assert_allclose(translation.attribution(checkpoint, "contributions").values.sum(1), 1.0, atol=1e-5)


def test_windows_of_a_classifier_have_shares_too() -> None:
    checkpoint = load("checkpoints/splice-junctions")
    ids = IdTokenizer(5, SpecialIds())
    checkpoint = replace(checkpoint, tokenizer=ids)
    run = run_any(checkpoint, " ".join("01322103" * 3))
    for method in ("contributions", "norms", "value_zeroing", "rollout"):
        found = run.attribution(checkpoint, method)
        assert found.steps == run.record["encoder.0.self"].keys
        np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-5)


def test_a_run_that_was_changed_is_refused(checkpoint: Checkpoint) -> None:
    """Methods ask the model as it is, which is not the one that wrote such a translation."""
    with intervening([Intervention(Site("decoder.2.cross"), "zero")]):
        changed = translate(checkpoint, SENTENCE)
    with pytest.raises(AttributionError) as refused:
        changed.attribution(checkpoint)
    assert refused.value.code == "attribution_of_a_changed_run"


def test_what_a_method_costs_is_told_in_passes(checkpoint: Checkpoint, translation: Translation) -> None:
    source, read = len(translation.source_ids), len(translation.target_ids)
    passes = {
        "deletion": source + read, "deletion_removed": source, "gradients": read, "integrated_gradients": 256 * read,
    }  # fmt: skip
    for method, expected in passes.items():
        known = cost(checkpoint, translation, method)
        assert known is not None
        assert known.passes == expected
        assert known.seconds > 0
    assert cost(checkpoint, translation, "rollout") is None


def test_what_a_pass_takes_is_measured_within_bounds(
    checkpoint: Checkpoint, translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fastest of a few passes that are short, and the first alone where passes are long."""
    source, read = len(translation.source_ids), len(translation.target_ids)
    short = [0.09, 0.03, 0.01, 0.02, 0.04, 0.001]
    for given, measured, fastest in ((short, 5, 0.01), ([0.15, 0.06, 0.01], 2, 0.06), ([7.0, 1.0], 1, 7.0)):
        left, now = list(given), [0.0]

        def passed(*_: object, left: list[float] = left, now: list[float] = now) -> None:
            now[0] += left.pop(0)

        monkeypatch.setattr(ScoredSequence, "log_probs", passed)
        monkeypatch.setattr(time, "perf_counter", lambda now=now: now[0])
        known = cost(checkpoint, translation, "deletion")
        assert known is not None
        assert len(given) - len(left) == measured
        expected = (source + read) * fastest * 1.1 * (source + read) / 120
        assert known.seconds == pytest.approx(expected)
