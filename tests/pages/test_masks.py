"""The page "Masks": first paint, every screen and control, the leak test, hostile input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.tiny import save_tiny
from transformer.lessons.breaking import BREAKS
from transformer.lessons.conventions import CONVENTIONS
from ui import cached
from ui.components.blob import unpack
from ui.masks import TRY

PAGE = Path(__file__).parents[2] / "pages" / "masks.py"


def page(**address: str) -> AppTest:
    at = AppTest.from_file(str(PAGE), default_timeout=60)
    at.query_params.update(address)
    return at.run()


def fine(at: AppTest) -> AppTest:
    assert not at.exception
    assert not at.warning
    return at


def drawn(at: AppTest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the matrices component got: its header by matrix, and the arrays."""
    header, arrays = unpack(at.get("bidi_component")[0].proto.bytes)
    return {matrix["name"]: matrix for matrix in header["matrices"]}, arrays


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path)
    monkeypatch.setattr(cached, "CHECKPOINTS", tmp_path)


def test_the_first_paint_builds_the_decoder_mask_of_a_worked_example():
    matrices, arrays = drawn(fine(page()))
    assert list(matrices) == ["real", "triangle", "result"]
    real, past = arrays["real"], arrays["triangle"].reshape(7, 7)
    np.testing.assert_array_equal(arrays["result"].reshape(7, 7), past * real)
    np.testing.assert_array_equal(real, [1, 1, 1, 1, 0, 0, 0])


def test_hover_says_in_words_why_a_cell_is_hidden():
    matrices, arrays = drawn(fine(page()))
    sentence = matrices["result"]["sentences"][arrays["result.codes"].reshape(7, 7)[1, 2]]
    assert sentence.format(row=2, column=3) == "query 2 may not see key 3: it comes later"
    assert "padding" in matrices["result"]["sentences"][arrays["result.codes"].reshape(7, 7)[6, 5]]


@pytest.mark.parametrize("kind", ["padding", "causal", "both", "cross"])
@pytest.mark.parametrize("row", ["1", "2"])
def test_every_mask_of_every_sentence(kind: str, row: str):
    fine(page(mask=kind, row=row))
    fine(page(mask=kind, row=row, screen="conventions"))


@pytest.mark.parametrize("at", ["encoder", "decoder", "cross"])
def test_scores_before_and_after_and_the_weights(at: str):
    matrices, arrays = drawn(fine(page(screen="scores", at=at)))
    shape = len(matrices["before"]["rows"]), len(matrices["before"]["columns"])
    before, after, weights = (arrays[name].reshape(shape) for name in ("before", "after", "weights"))
    visible = ~np.isneginf(after)
    np.testing.assert_array_equal(before[visible], after[visible])
    assert (~visible).any()
    np.testing.assert_allclose(weights.sum(1), 1.0, rtol=1e-5)
    assert (weights[~visible] == 0).all()


@pytest.mark.parametrize("name", CONVENTIONS)
def test_every_convention_has_code_to_copy(name: str):
    at = fine(page(screen="conventions", convention=name))
    assert at.code[0].value == CONVENTIONS[name].code


@pytest.mark.parametrize("how", BREAKS)
def test_a_break_is_found_by_the_leak_test(how: str):
    at = fine(page(screen="break", how=how))
    assert bool(at.error) == (how != "right")
    assert bool(at.success) == (how == "right")


@pytest.mark.parametrize("how", ["no_causal", "shift"])
@pytest.mark.usefixtures("shipped")
def test_the_translator_is_shown_beside_the_right_one(how: str):
    at = fine(
        page(screen="break", how=how, made="shipped", sources="two dogs run\na man", targets="zwei\nein Mann rennen")
    )
    assert list(at.dataframe[0].value.columns) == ["translation, right mask", "translation, broken mask"]
    assert "nats a token with the right mask" in " ".join(part.value for part in at.markdown)


@pytest.mark.usefixtures("shipped")
def test_any_checkpoint_can_be_tested():
    at = fine(page(screen="test"))
    assert at.success
    assert at.dataframe[0].value["largest forbidden weight"].max() == 0


def test_without_checkpoints_the_leak_test_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cached, "CHECKPOINTS", tmp_path)
    assert "No checkpoint" in fine(page(screen="test")).info[0].value
    assert "train one" in page(made="shipped").error[0].value


@pytest.mark.parametrize("name", TRY)
def test_try_this_sets_the_controls(name: str):
    at = page(screen="conventions", mask="cross")
    at.button(key=f"masks.{name}").click().run()
    fine(at)
    assert at.session_state["screen"] == TRY[name].get("screen", "build")


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ("", "", "0 source sentences"),
        ("   \n ", "x", "0 source sentences"),
        ("a\nb\nc\nd\ne", "a\nb\nc\nd\ne", "5 source sentences"),
        ("a", "b\nc", "as many of one"),
        ("word " * 30, "b", "30 words"),
        ("x" * 10_000, "b", "2,000 characters"),
    ],
)
def test_a_batch_that_cannot_be_read_gets_a_sentence(sources: str, targets: str, message: str):
    at = page()
    at.text_area(key="sources").set_value(sources)
    at.text_area(key="targets").set_value(targets).run()
    assert not at.exception
    assert message in at.warning[0].value


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "🚲 🚲", "مرحبا بالعالم", "{row} {0} %s", "a\u0007b"])
def test_strange_words_are_words(text: str):
    at = page()
    at.text_area(key="sources").set_value(text)
    at.text_area(key="targets").set_value(text).run()
    fine(at)


@pytest.mark.parametrize(
    "address",
    [{"mask": "<b>"}, {"row": "9"}, {"screen": "nothing"}, {"how": "?"}, {"convention": "numpy"}, {"lang": "zh"}],
)
def test_a_hostile_address_is_ignored(address: dict[str, str]):
    fine(page(**address))
