"""What holds of every method of attribution: what it is asked of, what it is refused, and where its name stands."""

import ast
import inspect

import numpy as np
import pytest

from heedmap.attention.record import Record
from heedmap.errors import NotDefinedError
from heedmap.explain.attribution.methods import METHODS, Method, attribute, defined, methods_of
from heedmap.explain.attribution.result import EncodedText, ScoredSequence
from heedmap.messages import LANGUAGES
from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE, refuses
from tests.explain.attribution.test_deletion import recurrent
from tests.explain.attribution.test_methods import record_of
from tests.imports import SOURCES, relative, sources


def asked(sequence: ScoredSequence) -> tuple[ScoredSequence, Record]:
    return sequence, record_of(sequence.model)


def test_every_method_answers_on_the_same_axes() -> None:
    made = reference.model("torch")
    sequence, record = asked(reference.scored_sequence(made))
    assert defined(sequence, record) == tuple(METHODS)
    for method in METHODS:
        found = attribute(sequence, record, method)
        assert found.method == method
        assert found.picture().values.shape == (len(READ), len(found.source) + len(found.prefix))
        assert found.source.texts == sequence.source.texts
        for language in LANGUAGES:
            assert METHODS[method].question.in_language(language)
            assert METHODS[method].limit.in_language(language)
        if "layer" in METHODS[method].takes:
            assert "layer 1" in attribute(sequence, record, method, layer=1).name
        if "head" in METHODS[method].takes:
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
            if method == "weights":  # by location there is mass past the source, which is left out
                assert bool(found.notes) == (attention == "location")
        else:
            with pytest.raises(NotDefinedError) as refused:
                attribute(sequence, record, method)
            assert refused.value.fields["methods"] == defined(sequence, record)  # each of them has just answered
            assert refused.value.message.endswith(", ".join(defined(sequence, record)))


WORDS = {"weights", "norms"}
"""Names that are words of other subjects, too: they are looked for where attribution is spoken of."""

ELSEWHERE = {
    ("ui/shared/record_views.py", "weights"): "an array that a view is sent",
}


def test_a_method_is_named_where_it_is_defined_and_computed_and_nowhere_else() -> None:
    """A name in a string elsewhere would have to be kept in step by hand."""
    found = set()
    for path in sources(*SOURCES):
        text = path.read_text(encoding="utf-8")
        strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
        for name, method in METHODS.items():
            homes = (
                inspect.getfile(Method),
                inspect.getfile(inspect.unwrap(getattr(method.answer, "func", method.answer))),
            )
            if {name, f"{name}."} & strings and str(path) not in homes and (name not in WORDS or "attribution" in text):
                found.add((relative(path), name))
    assert found == set(ELSEWHERE)


def test_what_does_not_exist_is_refused_by_name() -> None:
    sequence, record = asked(reference.scored_sequence(reference.model("torch")))
    wrong = {
        ("saliency", None, None): "attribution_not_known",
        ("rollout", 1, None): "attribution_of_the_whole",
        ("contributions", 1, 1): "attribution_of_the_whole",
        ("norms", 0, 7): "attribution_no_head",
        ("norms", 9, None): "attribution_no_layer",
        ("norms", -1, None): "attribution_no_layer",
    }
    for method in set(METHODS) - {"integrated_gradients"}:
        refuses("attribution_of_the_whole", attribute, sequence, record, method, points=8)
    for (method, layer, head), code in wrong.items():
        refuses(code, attribute, sequence, record, method, layer, head)
    reading = EncodedText("small", sequence.model, SOURCE, sequence.source)
    for method in METHODS:
        if method in methods_of("text"):
            assert attribute(reading, record, method).values.shape == (len(SOURCE), len(SOURCE))
        else:
            refuses("attribution_not_known", attribute, reading, record, method)
