"""The first screen of Translate: a sentence over its translation, at a head that is true; what the model knows."""


import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import chosen, record_sent, sent
from tests.pages.test_translate import opened
from transformer import DecodingOptions
from transformer.runs.measures.head_agreement import known_agreement
from ui.shared import heads
from ui.store import runs, store

NAME = "multi30k-en-de"
SENTENCE = "A man in a blue shirt is riding a bicycle down the street."


def bitext(page: AppTest) -> tuple[dict[str, object], np.ndarray]:
    """What the browser draws: the component's header with the head's name, and the head's weights in the record."""
    header, _ = sent(page, "bitext")
    kind, layer, head = chosen(page)
    if kind != header["kind"]:
        layer, head = header["first"]["layer"], header["first"]["head"]
    _, weights = record_sent(page)[header["kind"]]
    return {**header, "head": header["heads"][layer][-1 if head is None else head]}, weights[layer, head]


def said(page: AppTest) -> str:
    return " ".join(part.value for part in (*page.markdown, *page.caption, *page.warning))


def known(page: AppTest) -> str:
    """What the browser says of the chosen head."""
    kind, layer, head = chosen(page)
    site = record_sent(page)[kind][0]["sites"][layer]
    return " ".join(text for text, _ in sent(page, "head-choice")[0]["known"][site][head]["sentences"])


def test_it_begins_with_the_truest_head_on_a_sentence_that_reorders() -> None:
    page = opened()
    checkpoint = store.checkpoint(NAME)
    measured = known_agreement(checkpoint)
    assert measured is not None
    run = runs.translation(NAME, checkpoint.examples[0], DecodingOptions(), None)
    header, weights = bitext(page)
    expected = run.record[measured.best.site].picture(measured.best.head, words=True)
    np.testing.assert_allclose(weights, expected.values, atol=1e-6)
    assert header["source"]["texts"] == list(expected.keys.texts)
    assert header["target"]["texts"][-2:] == [".", "</s>"]
    assert header["target"]["attached"][-2:] == [True, False]
    assert header["head"] == "layer 2 head 1"
    assert "names the deciding word" in known(page)
    dinner = header["source"]["texts"].index("dinner")
    assert int(weights[header["target"]["texts"].index("ein")].argmax()) == dinner  # a word that moved to the end


def test_the_old_default_is_a_named_discovery() -> None:
    page = opened(text=SENTENCE, layer="0", head="2")
    assert bitext(page)[0]["head"] == "layer 0 head 2"
    assert "follows the word before" in known(page)
    assert heads.role_of(NAME, "decoder.0.cross", 2) == "follows the word before"
    assert heads.role_of(NAME, "decoder.0.cross", 1) != "follows the word before"


@pytest.mark.parametrize("address", [{"words": "False"}, {"special": "False"}])
def test_it_shows_pieces_and_special_tokens_as_the_controls_say(address: dict[str, str]) -> None:
    header, weights = bitext(opened(text=SENTENCE, **address))
    run = runs.translation(NAME, SENTENCE, DecodingOptions(), None)
    picture = run.record["decoder.2.cross"].picture(1, "words" not in address, "special" not in address)
    np.testing.assert_allclose(weights, picture.values, atol=1e-6)
    assert [len(header[side]["attached"]) for side in ("target", "source")] == list(picture.values.shape)
    assert ("</s>" in header["target"]["texts"]) == ("special" not in address)


def test_a_line_says_what_the_model_knows_and_warns_far_from_it() -> None:
    near = opened(text=SENTENCE)
    assert "captions of everyday photographs" in said(near)
    assert not near.warning
    for language, knows, far in (
        ("en", "captions of everyday photographs", "far from what"),
        ("zh", "日常照片的说明文字", "相去甚远"),
    ):
        (warning,) = opened(text="I love you", lang=language).warning
        assert knows in warning.value
        assert far in warning.value
    assert not opened(text="I love you", force="Ich liebe dich.").warning


def test_examples_say_what_to_look_for() -> None:
    names = {language: [button.label for button in opened(lang=language).button if button.key.startswith("example-")]
             for language in ("en", "zh")}  # fmt: skip
    checkpoint = store.checkpoint(NAME)
    for language, found in names.items():
        assert found == [checkpoint.example_names[text][language] for text in checkpoint.examples]
    assert "A word moves to the end" in names["en"]


def test_hypotheses_that_were_dropped_are_counted_without_beginnings_of_others() -> None:
    page = opened(text=SENTENCE, beam="1")
    assert page.selectbox(key="node").label.startswith("Hypothesis (1 complete, ")
    tree = runs.translation(NAME, SENTENCE, DecodingOptions(beam=1), None).tree
    assert tree is not None
    dropped = tree.left_behind()
    parents = {node.parent for node in tree.nodes}
    assert page.selectbox(key="node").label == f"Hypothesis (1 complete, {len(dropped)} dropped)"
    assert not {node.id for node in dropped} & (parents | {node.id for node in tree.lineage(tree.best.id)})
    every = {node.id for node in tree.nodes[1:]}
    assert {node.id for node in dropped} == every - parents - {tree.best.id}
