"""The page Translate: a true head at first, every control, hostile input, recurrent models; looking runs no model."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from heedmap import DecodingOptions
from heedmap.explain.attribution.result import groups
from heedmap.runs.measures.head_agreement import known_agreement
from heedmap.runs.translate import MAX_CHARACTERS
from heedmap.text.beams import BeamTree
from tests.pages import opening
from tests.pages.opening import address_of, bars_of, chosen, head_shown, ran, record_sent, said, sent, told
from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents
from ui.shared import heads
from ui.store import cache, runs, store

NAME = "multi30k-en-de"
SENTENCE = "Three dogs are running through the snow."
DOGS = "Two dogs run."
BICYCLE = "A man in a blue shirt is riding a bicycle down the street."
VIEWS = ("heatmap", "head_view", "steps", "beams", "downloads")

opened = partial(opening.opened, "translate")


def written(page: AppTest) -> str:
    return next(part.value for part in page.text)


def test_first_paint_is_a_shipped_example() -> None:
    page = opened()
    examples = store.checkpoint(NAME).examples
    assert page.text_area(key="text").value == examples[0]
    assert written(page) == runs.translation(NAME, examples[0], DecodingOptions(), None).text
    assert "all-heads" in [part.key for part in page.get("bidi_component")]
    assert {"record", "head-choice", "heatmap"} <= {part.key for part in page.get("bidi_component")}
    assert not page.warning
    label = page.text_area(key="text").label
    assert f"{MAX_CHARACTERS:,} characters" in label
    assert "256 tokens" in label
    page.menu_button(key="examples").click(examples[2]).run()
    assert page.text_area(key="text").value == examples[2]
    assert not page.exception


@pytest.mark.parametrize("name", ["map", "translate", "what_if", "align"])
def test_a_loop_is_announced_wherever_the_translation_is_shown(name: str) -> None:
    page = opening.opened(name, text="dog dog dog dog dog dog", do="none")
    notes = [one.value for one in page.info]
    assert "“Hund” is written 7 times in a row" in [one.split(":")[0] for one in notes]
    assert sum("“dog” is read 6 times in a row" in one for one in notes) == 1


def test_looking_never_runs_the_model(passes: list[str]) -> None:
    page = ran(opened(), text=SENTENCE)
    assert passes
    passes.clear()
    for view, layer in zip(VIEWS, "01230", strict=True):
        page = told(opened(text=SENTENCE, view=view), kind="decoder.self", layer=layer, head="1")
        for toggle in page.toggle:
            toggle.set_value(not toggle.value).run()
        for slider in page.slider:
            if slider.key == "written":
                slider.set_value(slider.max).run()
        assert not page.exception
    assert passes == []


def test_another_hypothesis_shows_its_own_attention() -> None:
    page = opened(text=SENTENCE)
    best, values = written(page), head_shown(page)[1]
    box = page.selectbox(key="node")
    tree = runs.translation(NAME, SENTENCE, DecodingOptions(), None).tree
    assert tree is not None
    second = tree.hypotheses()[1].id
    assert likely(page, tree, tree.hypotheses()[0].id)
    box.set_value(str(second)).run()
    assert not page.exception
    assert likely(page, tree, second)
    assert written(page) != best
    assert not np.array_equal(head_shown(page)[1], values)


def likely(page: AppTest, tree: BeamTree, node: int) -> bool:
    """Whether the page gives the number of tokens of this hypothesis, and the sum of their log-probabilities."""
    tokens = tree.lineage(node)
    expected = f"{len(tokens)} tokens, log-probability {sum(one.log_prob for one in tokens):.2f} nats"
    return expected in [part.value for part in page.caption]


HOSTILE = (
    "🙂🙃 two dogs \u202ereversed\u202c text",
    "<script>alert(1)</script> <img src=x onerror=alert(1)>",
    "a\x00b\x07c \x1b[31mred **bold** $x^2$ :material/home: [a](b)",
)


def test_hostile_text_is_run_and_never_unescaped() -> None:
    page = opened(longest="5", beam="1")
    for text in HOSTILE:
        strips = [part.proto.body for part in ran(page, text=text).get("html")]
        assert all("<script" not in body and "<img" not in body for body in strips)
        assert written(page) is not None


def test_a_change_of_language_changes_nothing_else_and_another_sentence_starts_with_its_own_best_hypothesis() -> None:
    page = opened(text=SENTENCE, view="steps", written="4", kind="decoder.self", head="mean")
    page.selectbox(key="node").set_value(second_node()).run()
    before = written(page), address_of(page)
    page.button_group(key="lang").set_value("zh").run()
    assert not page.exception
    after = address_of(page)
    assert after.pop("lang") == "zh"
    assert (written(page), after) == before
    assert page.slider(key="written").value == 4
    assert "步" in page.slider(key="written").label
    assert address_of(page)["node"] == second_node()
    page = ran(page, text="Two men are cooking.")
    assert written(page) == runs.translation(NAME, "Two men are cooking.", DecodingOptions(), None).text
    assert "node" not in page.query_params


def second_node() -> str:
    tree = runs.translation(NAME, SENTENCE, DecodingOptions(), None).tree
    assert tree is not None
    return str(tree.hypotheses()[1].id)


def test_what_the_limit_cut_is_not_called_complete() -> None:
    page = opened(
        text="Three black dogs are running through the deep snow beside a frozen lake.", longest="5", beam="2"
    )
    label = next(one.label for one in page.selectbox if one.key == "node")
    assert "0 complete, 2 cut at 5 tokens" in label
    assert any("Cut at 5 tokens" in caption.value for caption in page.caption)
    page = opened(text=SENTENCE)
    label = next(one.label for one in page.selectbox if one.key == "node")
    assert "5 complete" in label
    assert "cut" not in label
    assert not any("Cut at" in caption.value for caption in page.caption)


def test_a_step_says_what_it_writes_and_that_another_piece_was_likelier() -> None:
    text = "Someone is cooking dinner in a small kitchen."
    steps = runs.translation(NAME, text, DecodingOptions(), None).steps
    at = next(i for i, step in enumerate(steps) if step.rank)
    for number in (1, at + 1):
        step = steps[number - 1]
        page = opened(text=text, view="steps", written=str(number))
        told = next(one.value for one in page.markdown if "Step" in one.value)
        assert f"“{step.text.strip(chr(0x2581))}”, with probability {step.probability:.3f}" in told
        assert ("was likelier" in told) == (step.rank > 0)
        found = [one.probability for one in step.likeliest]
        np.testing.assert_allclose([row.value for row in bars_of(page, "next-tokens")][: len(found)], found, atol=1e-5)
    assert f"{steps[at].likeliest[0].probability:.3f}" in told


def test_a_forced_target_is_shown_beside_what_the_model_writes_itself() -> None:
    own, typed = (runs.translation(NAME, SENTENCE, DecodingOptions(), target) for target in (None, "Drei Katzen."))
    page = opened(text=SENTENCE, force="Drei Katzen.", view="beams")
    assert written(page) == "Drei Katzen."
    assert any("has no beam" in info.value for info in page.info)
    (told,) = [one.value for one in page.caption if "The model itself" in one.value]
    assert f"{own.log_prob:.2f}" in told
    assert f"{typed.log_prob:.2f}" in told
    assert not any("The model itself" in one.value for one in opened(text=SENTENCE).caption)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints_with_recurrents(tmp_path_factory.mktemp("recurrent"))


@pytest.fixture
def recurrents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", folder)
    cache.clear()


@pytest.mark.parametrize(("name", "view"), [(ADDITIVE, view) for view in VIEWS] + [(LOCATION, VIEWS[0])])
def test_every_view_shows_the_one_attention_of_a_recurrent_model(recurrents: None, name: str, view: str) -> None:
    page = opened(model=name, view=view, longest="10")
    assert not page.warning
    assert written(page)
    (weights,) = (weights for _, weights in record_sent(page).values())
    assert (list(record_sent(page)), weights.shape[:2]) == (["decoder.cross"], (1, 1))


def test_a_layer_that_the_other_model_lacks_falls_back(recurrents: None) -> None:
    page = opened(layer="3", head="2", kind="encoder.self", longest="10")
    assert page.selectbox(key="model").options == [NAME, ADDITIVE, LOCATION]
    page.selectbox(key="model").set_value(ADDITIVE).run()
    assert not page.exception
    assert chosen(page) == ("decoder.cross", 0, 0)


def bitext(page: AppTest) -> tuple[dict[str, Any], np.ndarray, list[tuple[int, float]]]:
    """What the browser draws: words and names of the chosen head, its weights in the record, what decides each row."""
    header, _ = sent(page, "bitext")
    kind, layer, head = chosen(page)
    found, weights = record_sent(page)[kind]
    side = header["sides"][kind]
    names = side["heads"][layer]
    for name, axis in (("key", "keys"), ("query", "queries")):
        side[name]["texts"] = found[axis]["texts"]
    return {**side, "head": names[-1 if head is None else head]}, weights[layer, head], found.get("decided", [])


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
    assert header["head"] == f"layer {measured.best.layer} head {measured.best.head}"
    assert f"names the deciding word ({measured.best.agreement:.0%} of {measured.rows:,} words)" in known(page)
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
    page = opened(text=BICYCLE, layer="0", head="2")
    assert bitext(page)[0]["head"] == "layer 0 head 2"
    assert "follows the word before" in known(page)
    assert heads.roles_of(NAME)("decoder.0.cross", 2) == "follows the word before"
    assert heads.roles_of(NAME)("decoder.0.cross", 1) != "follows the word before"


@pytest.mark.parametrize("address", [{"words": "False"}, {"special": "False"}])
def test_it_shows_pieces_and_special_tokens_as_the_controls_say(address: dict[str, str]) -> None:
    header, weights, decided = bitext(opened(text=BICYCLE, **address))
    run = runs.translation(NAME, BICYCLE, DecodingOptions(), None)
    picture = run.record["decoder.2.cross"].picture(3, "words" not in address, "special" not in address)
    np.testing.assert_allclose(weights, picture.values, atol=1e-6)
    assert [len(header[side]["attached"]) for side in ("query", "key")] == list(picture.values.shape)
    assert ("</s>" in header["query"]["texts"]) == ("special" not in address)
    assert len(decided) == ("words" not in address) * len(weights)  # of whole words alone it is known
    texts = {header["key"]["texts"][key] for key, _ in decided if key >= 0}
    assert {"blue", "bicycle"} <= texts or not decided


def test_the_lines_on_top_are_those_of_the_chosen_head_whatever_its_kind() -> None:
    page = opened(text=BICYCLE, kind="encoder.self", layer="1", head="2")
    header, weights, _ = bitext(page)
    run = runs.translation(NAME, BICYCLE, DecodingOptions(), None)
    np.testing.assert_allclose(weights, run.record["encoder.1.self"].picture(2, words=True).values, atol=1e-6)
    assert header["key"]["texts"] == header["query"]["texts"] == list(run.axes.source.merged().texts)
    assert header["head"] == "layer 1 head 2 (Encoder self)"
    assert header["within"]


def test_a_line_says_that_a_model_knows_texts_like_its_data() -> None:
    for language, knows in (("en", "It knows texts like its training data."), ("zh", "相似的文本")):
        assert knows in said(opened(text=BICYCLE, lang=language))


def test_examples_say_what_to_look_for() -> None:
    checkpoint = store.checkpoint(NAME)
    for language in ("en", "zh"):
        found = opened(lang=language).menu_button(key="examples").proto.options
        told = [f"{checkpoint.example_names[text][language]}: {text}" for text in checkpoint.examples]
        assert [one.replace("\\", "") for one in found] == told
    assert any("A word moves to the end" in checkpoint.example_names[text]["en"] for text in checkpoint.examples)


def test_hypotheses_that_were_dropped_are_counted_without_beginnings_of_others() -> None:
    page = opened(text=BICYCLE, beam="1")
    assert page.selectbox(key="node").label.startswith("Hypothesis (1 complete, ")
    tree = runs.translation(NAME, BICYCLE, DecodingOptions(beam=1), None).tree
    assert tree is not None
    dropped = tree.left_behind()
    parents = {node.parent for node in tree.nodes}
    assert page.selectbox(key="node").label == f"Hypothesis (1 complete, {len(dropped)} dropped)"
    assert not {node.id for node in dropped} & (parents | {node.id for node in tree.lineage(tree.best.id)})
    every = {node.id for node in tree.nodes[1:]}
    assert {node.id for node in dropped} == every - parents - {tree.best.id}


def test_a_recurrent_model_offers_what_is_defined_and_names_the_rest(recurrents: None) -> None:
    for model in (ADDITIVE, LOCATION):
        page = opened(view="sources", model=model, text=DOGS, also="weights")
        assert not page.error
        told = said(page)
        assert "Not defined for this checkpoint: deletion (hidden from attention), layer contributions" in told
        notes = sent(page, "sources-1")[0]["axis"]["notes"]
        assert ("past the end of the source is left out" in notes) == (model == LOCATION)
