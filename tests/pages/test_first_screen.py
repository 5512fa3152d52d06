"""The first screen of Translate: a sentence over its translation, at a head that is true; what the model knows."""

from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.pages.opening import chosen, record_sent, sent
from tests.pages.test_translate import opened
from transformer import DecodingOptions
from transformer.explain.attribution.result import groups
from transformer.runs.measures.head_agreement import known_agreement
from ui.shared import heads
from ui.store import runs, store

NAME = "multi30k-en-de"
SENTENCE = "A man in a blue shirt is riding a bicycle down the street."


def bitext(page: AppTest) -> tuple[dict[str, Any], np.ndarray, list[tuple[int, float]]]:
    """What the browser draws: words and names of the chosen head, its weights in the record, what decides each row."""
    header, _ = sent(page, "bitext")
    kind, layer, head = chosen(page)
    found, weights = record_sent(page)[kind]
    side = header["sides"][kind]
    names = side["heads"][layer]
    return {**side, "head": names[-1 if head is None else head]}, weights[layer, head], found.get("decided", [])


def said(page: AppTest) -> str:
    return " ".join(part.value for part in (*page.markdown, *page.caption, *page.warning))


def known(page: AppTest) -> str:
    """What the browser says of the chosen head."""
    kind, layer, head = chosen(page)
    site = record_sent(page)[kind][0]["sites"][layer]
    return " ".join(text for text, _ in sent(page, "head-choice")[0]["known"][site][head]["sentences"])


def test_it_begins_with_the_truest_head_on_a_sentence_in_which_it_looks_where_words_are_decided() -> None:
    page = opened()
    checkpoint = store.checkpoint(NAME)
    measured = known_agreement(checkpoint)
    assert measured is not None
    run = runs.translation(NAME, checkpoint.examples[0], DecodingOptions(), None)
    header, weights, decided = bitext(page)
    expected = run.record[measured.best.site].picture(measured.best.head, words=True)
    np.testing.assert_allclose(weights, expected.values, atol=1e-6)
    assert header["key"]["texts"] == list(expected.keys.texts)
    assert header["query"]["texts"][-2:] == [".", "</s>"]
    assert header["query"]["attached"][-2:] == [True, False]
    assert header["head"] == "layer 2 head 1"
    assert "names the deciding word" in known(page)
    agree = [weights[row].argmax() == key for row, (key, _) in enumerate(decided) if key >= 0]
    assert all(agree)
    assert len(agree) >= 4


@pytest.mark.parametrize("name", ["multi30k-en-de", "multi30k-en-de-rnn"])
def test_every_strong_line_of_an_example_is_true_or_has_its_dotted_line(name: str) -> None:
    """Held against a deletion of its own: one run for each hidden or left out word, without the library's batches."""
    checkpoint = store.checkpoint(name)
    for text in checkpoint.examples:
        header, weights, decided = bitext(opened(model=name, text=text))
        run = runs.translation(name, text, DecodingOptions(), None)
        sequence = run.scored_sequence(checkpoint)
        rows, columns = (groups(axis, words=True) for axis in (sequence.written, sequence.source))
        whole = sequence.log_probs([sequence.source_ids], [sequence.read_ids])[0].numpy()
        lost = np.full((len(rows), len(columns)), -np.inf)
        for column, pieces in enumerate(columns):
            if header["key"]["special"][column]:
                continue
            if name == NAME:
                hidden = torch.tensor([[i not in pieces for i in range(len(sequence.source_ids))]])
                without = sequence.log_probs([sequence.source_ids], [sequence.read_ids], hidden)[0]
            else:
                left = [one for i, one in enumerate(sequence.source_ids) if i not in pieces]
                without = sequence.log_probs([left], [sequence.read_ids])[0]
            lost[:, column] = [(whole - without.numpy())[list(row)].sum() for row in rows]
        for row in np.flatnonzero((weights > 0.5).any(axis=1)):
            if header["query"]["special"][row]:
                continue
            key, nats = decided[row]
            best = int(lost[row].argmax())
            assert nats == pytest.approx(lost[row].max(), abs=1e-3)
            assert key == (best if lost[row].max() > 1 else -1), "true, dotted to another word, or told: none decides"


def test_the_old_default_is_a_named_discovery() -> None:
    page = opened(text=SENTENCE, layer="0", head="2")
    assert bitext(page)[0]["head"] == "layer 0 head 2"
    assert "follows the word before" in known(page)
    assert heads.role_of(NAME, "decoder.0.cross", 2) == "follows the word before"
    assert heads.role_of(NAME, "decoder.0.cross", 1) != "follows the word before"


@pytest.mark.parametrize("address", [{"words": "False"}, {"special": "False"}])
def test_it_shows_pieces_and_special_tokens_as_the_controls_say(address: dict[str, str]) -> None:
    header, weights, decided = bitext(opened(text=SENTENCE, **address))
    run = runs.translation(NAME, SENTENCE, DecodingOptions(), None)
    picture = run.record["decoder.2.cross"].picture(1, "words" not in address, "special" not in address)
    np.testing.assert_allclose(weights, picture.values, atol=1e-6)
    assert [len(header[side]["attached"]) for side in ("query", "key")] == list(picture.values.shape)
    assert ("</s>" in header["query"]["texts"]) == ("special" not in address)
    assert len(decided) == ("words" not in address) * len(weights)  # of whole words alone it is known
    texts = {header["key"]["texts"][key] for key, _ in decided if key >= 0}
    assert {"blue", "bicycle"} <= texts or not decided


def test_the_lines_on_top_are_those_of_the_chosen_head_whatever_its_kind() -> None:
    page = opened(text=SENTENCE, kind="encoder.self", layer="1", head="2")
    header, weights, _ = bitext(page)
    run = runs.translation(NAME, SENTENCE, DecodingOptions(), None)
    np.testing.assert_allclose(weights, run.record["encoder.1.self"].picture(2, words=True).values, atol=1e-6)
    assert header["key"]["texts"] == header["query"]["texts"] == list(run.axes.source.merged().texts)
    assert header["head"] == "layer 1 head 2 (Encoder self)"
    assert header["within"]


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
    checkpoint = store.checkpoint(NAME)
    for language in ("en", "zh"):
        found = opened(lang=language).menu_button(key="examples").proto.options
        told = [f"{checkpoint.example_names[text][language]}: {text}" for text in checkpoint.examples]
        assert [one.replace("\\", "") for one in found] == told
    assert any("A word moves to the end" in checkpoint.example_names[text]["en"] for text in checkpoint.examples)


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
