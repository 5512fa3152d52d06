"""Every method by its name: what is defined for which model, recurrent ones and decoders alone too."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.checkpoint.originals.common import scramble
from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE, WRITTEN
from tests.explain.attribution.test_deletion import recurrent
from tests.explain.attribution.test_methods import N_READ, N_SOURCE, record_of
from transformer import load
from transformer.attention.capture import recording, watch
from transformer.attention.record import Record
from transformer.errors import AttributionError, NotDefinedError
from transformer.explain.attribution.contributions import contributions
from transformer.explain.attribution.gradients import gradients
from transformer.explain.attribution.methods import (
    DELETIONS,
    HEADED,
    LAYERED,
    METHODS,
    READING_METHODS,
    attribute,
    defined,
    limit,
    question,
)
from transformer.explain.attribution.norms import norms
from transformer.explain.attribution.scored_sequence import Reading, ScoredSequence
from transformer.explain.attribution.value_zeroing import value_zeroing
from transformer.explain.attribution.weights import rollout, weights
from transformer.messages import LANGUAGES
from transformer.runs.any_model import ModelRun, run_ids


def asked(sequence: ScoredSequence) -> tuple[ScoredSequence, Record]:
    with recording() as seen, torch.no_grad():
        watch(sequence.model)(torch.tensor([SOURCE]), torch.tensor([READ]))
    return sequence, Record({site: seen.map(site) for site in seen.sites})


def test_every_method_answers_on_the_same_axes() -> None:
    sequence, record = asked(
        reference.scored_sequence(reference.model("torch"), unknown_source_id=3, unknown_target_id=3)
    )
    assert defined(sequence, record) == METHODS
    for method in METHODS:
        found = attribute(sequence, record, method)
        assert found.method == method
        assert found.picture().values.shape == (len(READ), len(found.source) + len(found.prefix))
        assert found.source.texts == sequence.source.texts
        for language in LANGUAGES:
            assert question(method).in_language(language)
            assert limit(method).in_language(language)
        if method in LAYERED:
            assert "layer 1" in attribute(sequence, record, method, layer=1).name
        if method in HEADED:
            assert "head 2" in attribute(sequence, record, method, layer=1, head=2).name
    np.testing.assert_allclose(attribute(sequence, record, "rollout", words=True).values.sum(1), 1.0, atol=1e-9)


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_a_recurrent_model_is_asked_what_is_defined(attention: str) -> None:
    sequence, record = asked(reference.scored_sequence(recurrent(attention)))
    assert defined(sequence, record) == ("deletion_removed", "gradients", "integrated_gradients", "weights")
    for method in METHODS:
        if method in defined(sequence, record):
            found = attribute(sequence, record, method)
            assert found.of_source.shape == (len(READ), len(SOURCE))
            assert len(found.prefix) == (len(READ) if method == "integrated_gradients" else 0)
        else:
            with pytest.raises(NotDefinedError) as refused:
                attribute(sequence, record, method)
            assert refused.value.fields["methods"] == defined(sequence, record)  # each of them has just answered
            assert refused.value.message.endswith(", ".join(defined(sequence, record)))


def test_a_method_that_fails_on_a_layer_is_not_named_as_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a text alone too."""

    def refused(layer: object) -> None:
        raise NotDefinedError("attribution_needs_layers", name="small")

    monkeypatch.setattr("transformer.explain.attribution.value_zeroing.zeroed", refused)
    sequence, record = asked(reference.scored_sequence(reference.model("torch")))
    for ask, known in (
        (lambda: attribute(sequence, record, "value_zeroing"), METHODS),
        (
            lambda: attribute(Reading("small", sequence.model, SOURCE, sequence.source), record, "value_zeroing"),
            READING_METHODS,
        ),
    ):
        with pytest.raises(NotDefinedError) as raised:
            ask()
        named = raised.value.fields["methods"]
        assert "Transformer layers" in raised.value.message
        assert named == tuple(name for name in known if name not in ("value_zeroing", "deletion_unknown"))


def test_a_text_alone_has_methods_of_its_own() -> None:
    made = reference.model("annotated")
    sequence, record = asked(reference.scored_sequence(made))
    reading = Reading("small", made, SOURCE, sequence.source)
    for method in READING_METHODS:
        assert attribute(reading, record, method).values.shape == (len(SOURCE), len(SOURCE))
    with pytest.raises(AttributionError) as refused:
        attribute(reading, record, "gradients")
    assert refused.value.code == "attribution_not_known"


def test_what_does_not_exist_is_refused_by_name() -> None:
    sequence, record = asked(reference.scored_sequence(reference.model("torch")))
    wrong = {
        ("saliency", None, None): "attribution_not_known",
        ("rollout", 1, None): "attribution_of_the_whole",
        ("value_zeroing", 1, 1): "attribution_of_the_whole",
        ("norms", 0, 7): "attribution_no_head",
        ("norms", 9, None): "attribution_no_layer",
        ("norms", -1, None): "attribution_no_layer",
    }
    for method in set(METHODS) - {"integrated_gradients"}:
        with pytest.raises(AttributionError) as refused:
            attribute(sequence, record, method, points=8)
        assert refused.value.code == "attribution_of_the_whole"
    for (method, layer, head), code in wrong.items():
        with pytest.raises(AttributionError) as refused:
            attribute(sequence, record, method, layer, head)
        assert refused.value.code == code
    assert set(DELETIONS) < set(METHODS)


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


IDS = [5, 17, 2, 30, 17, 9, 11]
N_HEADS = 3


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[ModelRun, object]]:
    folder = tmp_path_factory.mktemp("decoder")
    torch.manual_seed(5)
    config = transformers.GPT2Config(
        vocab_size=31, n_embd=15, n_layer=2, n_head=N_HEADS, n_inner=23, n_positions=29, initializer_range=0.4
    )
    original = scramble(transformers.GPT2LMHeadModel(config)).eval()
    original.save_pretrained(folder / "theirs")
    torch.save(original.state_dict(), folder / "model.bin")
    found = [load(folder / "theirs"), load(folder / "model.bin", n_heads=N_HEADS, activation="gelu_tanh")]
    pieces = [str(one) for one in IDS]
    return [(run_ids(one, "ids", IDS, pieces), one) for one in found]


@pytest.mark.parametrize("method", ["deletion", "gradients", "integrated_gradients"])
def test_each_method_says_the_same_of_both(runs, method: str) -> None:
    theirs, ours = (run.attribution(checkpoint, method) for run, checkpoint in runs)
    assert ours.values.shape == theirs.values.shape == (len(IDS) - 1, len(IDS) - 1)
    assert np.abs(np.tril(ours.values, -1)).max() > 0.01, "it is no table of nothing"
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-3, atol=1e-4)


def test_a_token_that_is_hidden_is_seen_by_nobody(runs) -> None:
    """By hand: the scores of what follows, with the hidden token's key masked in every layer."""
    run, checkpoint = runs[1]
    values = run.attribution(checkpoint, "deletion").values
    model = checkpoint.model
    ids = torch.tensor([IDS[:-1]])
    shown = torch.ones(1, len(IDS) - 1, dtype=torch.bool)
    with torch.no_grad():
        before = torch.log_softmax(model(ids)[0], -1)
        shown[0, 2] = False
        after = torch.log_softmax(model(ids, shown)[0], -1)
    expected = [float(before[t, IDS[t + 1]] - after[t, IDS[t + 1]]) for t in range(3, len(IDS) - 1)]
    np.testing.assert_allclose(values[3:, 2], expected, atol=1e-5)


def test_a_refusal_names_what_the_decoder_has(runs) -> None:
    """It has no source that words could be taken out of, and no cross-attention; each method named does answer."""
    for run, checkpoint in runs:
        with pytest.raises(NotDefinedError, match="has no source") as refused:
            run.attribution(checkpoint, "deletion_removed")
        named = refused.value.fields["methods"]
        assert isinstance(named, tuple)
        assert {"deletion", "gradients", "integrated_gradients"} <= set(named)
        assert "deletion_removed" not in named
        for method in named:
            assert run.attribution(checkpoint, method).values.shape == (len(IDS) - 1, len(IDS) - 1)
