"""What a recurrent decoder has of the methods: its weights, and gradients of each step's look; the rest is refused."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE, WRITTEN
from tests.explain.attribution.test_deletion import recurrent
from tests.explain.attribution.test_methods import N_READ, N_SOURCE, record_of
from transformer.attention.record import Record
from transformer.errors import AttributionError
from transformer.explain.attribution.contributions import contributions
from transformer.explain.attribution.gradients import gradients
from transformer.explain.attribution.norms import norms
from transformer.explain.attribution.value_zeroing import value_zeroing
from transformer.explain.attribution.weights import rollout, weights


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_what_a_recurrent_model_does_not_have_is_refused_by_name(attention: str) -> None:
    made = recurrent(attention)
    given, record = reference.scored_sequence(made), record_of(made)
    refusals = {
        contributions: "attribution_needs_layers",
        norms: "attribution_needs_layers",
        value_zeroing: "attribution_needs_layers",
    }
    for method, code in refusals.items():
        with pytest.raises(AttributionError) as refused:
            method(given)
        assert refused.value.code == code
    with pytest.raises(AttributionError) as refused:
        rollout(given, record)
    assert refused.value.code == "attribution_nothing_recorded"
    found = weights(given, record)
    full = record["decoder.cross"].weights(0)
    np.testing.assert_array_equal(found.values, full[:, :N_SOURCE])
    assert bool(found.notes) == (attention == "location")


def look_by_hand(made: Any, record: Record, step: int) -> np.ndarray:
    """A' of one step's look: a zero added to its weights, and the slope of the written token's logit by it."""
    more, looks = torch.zeros(record["decoder.cross"].source.n_keys).double().requires_grad_(), []

    def put(module: Any, inputs: Any, output: Any) -> Any:
        mixed, kept = output
        looks.append(kept[0, 0, 0].detach())
        return (mixed + more @ inputs[2].states[0], kept) if len(looks) == step + 1 else output

    hook = made.attention.register_forward_hook(put)
    try:
        logits = made(torch.tensor([SOURCE]), torch.tensor([READ]))[0]
    finally:
        hook.remove()
    (slope,) = torch.autograd.grad(logits[step, WRITTEN[step]], more)
    found: np.ndarray = (looks[step] * slope).clamp(min=0)[:N_SOURCE].numpy()
    return found


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_gradients_of_a_recurrent_decoder_are_those_of_each_step_s_look(attention: str) -> None:
    made = recurrent(attention)
    given, record = reference.scored_sequence(made), record_of(made)
    found = gradients(given)
    by_hand = np.array([look_by_hand(made, record, step) for step in range(N_READ)])
    np.testing.assert_allclose(found.values, by_hand, atol=1e-12)
    assert (by_hand > 0).any()
    assert (len(found.source), len(found.prefix)) == (N_SOURCE, 0)
    assert [note.code for note in found.notes] == ["note_gradients", "note_gradients_recurrent"]
    single = gradients(reference.scored_sequence(made, source=(7,), read=(1,), written=(2,)))
    assert single.values.shape == (1, 1)
