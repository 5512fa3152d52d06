"""What is measured of a model that reads one text, held against formulas written here from the outputs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.attention.interventions.readers import TEXT, reader
from transformer import Intervention, run_any
from transformer.runs.what_if import (
    asked_about,
    ends_with,
    logit_effects,
    read_under,
    scores,
    state_effects,
    step_at,
    step_effects,
)

OFF = [Intervention("encoder.0.self", "zero", heads=(1,))]


def names(ids: list[int]) -> list[str]:
    return [f"token {i}" for i in ids]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    found: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found


@pytest.mark.parametrize(
    ("kind", "end"),
    [("classes", "classes"), ("states", "states"), ("positions", "positions"), ("next", "next"), ("number", "states")],
)
def test_what_a_model_ends_with_follows_from_its_head_and_its_mask(kind: str, end: str) -> None:
    checkpoint = reader(kind)
    assert ends_with(run_any(checkpoint, TEXT)) == end


def test_classes_change_by_their_log_odds() -> None:
    """Also where the model is surer than a float of 1 can say; a single logit is its own log-odds."""
    checkpoint = reader("classes")
    before, after = run_any(checkpoint, TEXT), read_under(checkpoint, TEXT, OFF)
    chances = [np.exp(log_softmax(run.outputs["logits"])) for run in (before, after)]
    odds = [np.log(p / (1 - p)) for p in chances]
    found = logit_effects("abc", before.outputs["logits"], after.outputs["logits"])
    np.testing.assert_allclose([one.change for one in found], odds[1] - odds[0], atol=1e-9)
    np.testing.assert_allclose([one.probabilities for one in found], np.transpose(chances), atol=1e-12)
    assert max(abs(one.change) for one in found) > 1e-3
    sure = logit_effects("ab", np.array([900.0, 0.0]), np.array([0.0, 50.0]))
    assert [one.change for one in sure] == [-950.0, 950.0]
    (alone,) = logit_effects("a", np.array([0.0]), np.array([2.0]))
    assert alone.probabilities == pytest.approx((0.5, 1 / (1 + np.exp(-2))))
    assert alone.change == 2.0


def test_a_decoder_alone_scores_the_next_token_of_its_own_text_and_a_chosen_one_after_it() -> None:
    checkpoint = reader("next")
    off = [Intervention("decoder.0.self", "zero", heads=(1,))]
    before, after = run_any(checkpoint, TEXT), read_under(checkpoint, TEXT, off)
    was, now = (log_softmax(run.outputs["log_probs"]) for run in (before, after))
    n, following = len(before.ids), 3
    ids = asked_about(before, "next", following)
    found = step_effects(["x"] * n, ids, scores(before), scores(after), names)
    own = [now[i, before.ids[i + 1]] - was[i, before.ids[i + 1]] for i in range(n - 1)]
    np.testing.assert_allclose([one.change for one in found], [*own, now[-1, 3] - was[-1, 3]], atol=1e-9)
    assert asked_about(before, "next")[-1] == was[-1].argmax()
    divergence = (np.exp(was[1]) * (was[1] - now[1])).sum()
    assert found[1].divergence == pytest.approx(divergence, abs=1e-9)
    step = step_at(scores(before)[1], ids[1], ["own", "first"], [int(was[1].argmax())])
    assert step.rank == (was[1] > was[1, ids[1]]).sum()
    assert step.probability == pytest.approx(np.exp(was[1, ids[1]]))
    assert step.likeliest[0].probability == pytest.approx(np.exp(was[1]).max())
    later = [Intervention("decoder.1.self", "zero", queries=(n - 1,))]
    changed = step_effects(["x"] * n, ids, scores(before), scores(read_under(checkpoint, TEXT, later)), names)
    assert not any(one.change for one in changed[:-1])
    assert changed[-1].change


def test_positions_keep_what_the_unchanged_model_held_likeliest() -> None:
    checkpoint = reader("positions")
    before, after = run_any(checkpoint, TEXT), read_under(checkpoint, TEXT, OFF)
    was, now = (log_softmax(run.outputs["logits"]) for run in (before, after))
    ids = asked_about(before, "positions")
    assert ids == was.argmax(1).tolist()
    found = step_effects(["x"] * len(ids), ids, scores(before), scores(after), names)
    expected = [now[i, j] - was[i, j] for i, j in enumerate(ids)]
    np.testing.assert_allclose([one.change for one in found], expected, atol=1e-9)
    assert all(one.margins[0] >= 0 for one in found)
    for i, one in enumerate(found):
        for run, margin, rival in zip((was, now), one.margins, one.rivals, strict=True):
            best = max((j for j in range(run.shape[1]) if j != ids[i]), key=lambda j: run[i, j])
            assert rival == f"token {best}"
            assert margin == pytest.approx(run[i, ids[i]] - run[i, best], abs=1e-9)


def test_states_have_lengths_and_a_distance() -> None:
    """A state that turns without getting longer has moved."""
    checkpoint = reader("states")
    before, after = run_any(checkpoint, TEXT), read_under(checkpoint, TEXT, OFF)
    was, now = (run.outputs["hidden"].astype(np.float64) for run in (before, after))
    found = state_effects(before, after)
    np.testing.assert_allclose([one.lengths for one in found], np.sqrt([(was**2).sum(1), (now**2).sum(1)]).T)
    np.testing.assert_allclose([one.moved for one in found], np.sqrt(((now - was) ** 2).sum(1)))
    assert [one.text for one in found] == list(before.record["encoder.0.self"].keys.labels)
    turned = state_effects(before, replace(before, outputs={"hidden": -before.outputs["hidden"]}))
    assert [one.moved for one in turned] == pytest.approx([2 * one.lengths[1] for one in turned])
    assert after.record.interventions == tuple(OFF)
    assert torch.equal(torch.tensor(before.ids), torch.tensor(after.ids))
