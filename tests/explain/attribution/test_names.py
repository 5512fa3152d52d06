"""Every method by its name: what is defined for which model, and one sentence on what it asks and cannot say."""

import numpy as np
import pytest
import torch

from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE
from tests.explain.attribution.test_deletion import recurrent
from transformer.attention.capture import recording, watch
from transformer.attention.record import Record
from transformer.errors import AttributionError, NotDefinedError
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
from transformer.explain.attribution.scored_sequence import Reading, ScoredSequence
from transformer.messages import LANGUAGES


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
