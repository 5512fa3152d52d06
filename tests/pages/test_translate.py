"""The Translate page: first paint, every control, empty and hostile input; looking never runs the model."""

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import opening
from tests.pages.opening import address_of, chosen, head_shown, ran, told
from transformer import DecodingOptions
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs.translate import MAX_CHARACTERS
from transformer.text.beams import BeamTree
from ui.store import cache, runs, store

NAME = "multi30k-en-de"
SENTENCE = "Three dogs are running through the snow."
CHINESE = re.compile("[\u4e00-\u9fff]")


def opened(**address: str) -> AppTest:
    page = opening.opened("translate", **address)
    assert not page.exception
    return page


def asked(page: AppTest, text: str) -> AppTest:
    return ran(page, text=text)


def written(page: AppTest) -> str:
    return next(part.value for part in page.text)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every time that the model reads a source."""
    seen: list[str] = []
    encode = Seq2Seq.encode

    def counted(self: Seq2Seq, *inputs: object) -> object:
        seen.append("encode")
        return encode(self, *inputs)  # type: ignore[arg-type]

    monkeypatch.setattr(Seq2Seq, "encode", counted)
    cache.clear()
    return seen


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


def test_looking_never_runs_the_model(passes: list[str]) -> None:
    page = asked(opened(), SENTENCE)
    assert passes
    passes.clear()
    for view, moves in (("Heatmap", ("decoder.self", "0", "1")), ("Beams", ("encoder.self", "2", "3"))):
        page = opened(text=SENTENCE, view=view)
        page = told(page, **dict(zip(("kind", "layer", "head"), moves, strict=True)))
        for toggle in page.toggle:
            toggle.set_value(not toggle.value).run()
        assert not page.exception
    for view in ("Head view", "Step by step", "Downloads"):
        page = opened(text=SENTENCE, view=view)
        for slider in page.slider:
            if slider.key in ("written", "threshold"):
                slider.set_value(slider.max).run()
        assert not page.exception
    assert passes == []


def test_the_address_holds_the_picture() -> None:
    page = opened(text=SENTENCE, kind="Encoder self", layer="1", head="2", words="false", view="Heatmap")
    assert chosen(page) == ("encoder.self", 1, 2)
    assert head_shown(page)[0] == "encoder.1.self · head 2"


def test_values_outside_the_model_fall_back() -> None:
    page = opened(layer="99", head="77", step="10000", node="99999", kind="nothing", view="Nowhere", pair="9-9999999")
    assert written(page)


def test_a_forced_target_is_shown_instead_of_the_translation() -> None:
    page = opened(text=SENTENCE, force="Drei Katzen schlafen im Bett.", view="Beams")
    assert written(page) == "Drei Katzen schlafen im Bett."
    assert any("has no beam" in info.value for info in page.info)


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


def test_what_cannot_be_read_gets_a_sentence_and_is_kept() -> None:
    page = opened()
    for text in ("", "   \n\t ", "x" * 10_000, "dog " * 400):
        asked(page, text)
        assert len(page.warning) == 1
        assert page.warning[0].value[0].isupper()
        assert page.text_area(key="text").value == text


HOSTILE = (
    "🙂🙃 two dogs \u202ereversed\u202c text",
    "<script>alert(1)</script> <img src=x onerror=alert(1)>",
    "a\x00b\x07c \x1b[31mred **bold** $x^2$ :material/home: [a](b)",
)


def test_hostile_text_is_run_and_never_unescaped() -> None:
    page = opened(longest="5", beam="1")
    for text in HOSTILE:
        strips = [part.proto.body for part in asked(page, text).get("html")]
        assert all("<script" not in body and "<img" not in body for body in strips)
        assert written(page) is not None


def test_the_page_follows_the_language_and_addresses_do_not() -> None:
    page = opened(lang="zh", text=SENTENCE)
    assert page.title[0].value == "翻译"
    assert "运行" in [button.label for button in page.button]
    page = told(page, kind="encoder.self", head="mean")
    assert chosen(page) == ("encoder.self", 2, None)
    texts = [part.value for part in (*page.caption, *page.markdown)]
    texts += [part.label for part in (*page.toggle, *page.slider, *page.selectbox, *page.button, *page.text_area)]
    texts = [text for text in texts if text and not text.isdecimal() and text != "Language · 语言"]
    assert all(CHINESE.search(text) for text in texts), texts


def test_a_change_of_language_changes_nothing_else() -> None:
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


def second_node() -> str:
    tree = runs.translation(NAME, SENTENCE, DecodingOptions(), None).tree
    assert tree is not None
    return str(tree.hypotheses()[1].id)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"view": "Head view"}, {"view": "head_view"}),
        ({"view": "Step by step"}, {"view": "steps"}),
        ({"kind": "Decoder self", "view": "Beams"}, {"kind": "decoder.self", "view": "beams"}),
    ],
)
def test_addresses_of_before_still_open(old: dict[str, str], new: dict[str, str]) -> None:
    page = opened(text=SENTENCE, **old)
    assert address_of(page) == {"text": SENTENCE, **new}
    assert chosen(page)[0] == ("decoder.self" if "kind" in old else "decoder.cross")


def test_a_hypothesis_by_its_words_still_opens() -> None:
    """Older addresses hold what the list shows."""
    page = opened(text=SENTENCE)
    shown = page.selectbox(key="node").options[1]
    page.selectbox(key="node").set_value(second_node()).run()
    other = written(page)
    assert written(opened(text=SENTENCE, node=shown)) == other
    assert written(opened(text=SENTENCE, node=second_node())) == other


def test_another_sentence_starts_with_its_own_best_hypothesis() -> None:
    page = opened(text=SENTENCE, node=second_node())
    page = asked(page, "Two men are cooking.")
    assert written(page) == runs.translation(NAME, "Two men are cooking.", DecodingOptions(), None).text
    assert "node" not in page.query_params


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
    assert f"{steps[at].likeliest[0].probability:.3f}" in told


@pytest.mark.parametrize("view", ["steps", "beams"])
def test_a_view_says_which_controls_do_not_change_it(view: str) -> None:
    page = opened(view=view)
    told = [one.value for one in page.caption if "change only the other pictures of the page" in one.value]
    assert len(told) == 1
    assert ("layer" in told[0]) == (view == "beams")


def test_a_forced_target_stands_beside_what_the_model_writes_itself() -> None:
    own, typed = (runs.translation(NAME, SENTENCE, DecodingOptions(), target) for target in (None, "Drei Katzen."))
    told = [one.value for one in opened(text=SENTENCE, force="Drei Katzen.").caption if "The model itself" in one.value]
    assert len(told) == 1
    assert f"{own.log_prob:.2f}" in told[0]
    assert f"{typed.log_prob:.2f}" in told[0]
    assert not any("The model itself" in one.value for one in opened(text=SENTENCE).caption)
