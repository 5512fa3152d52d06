"""The panel Check of the page Your model: what is expected is dropped once, and compared after every answer."""

import io

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.checkpoint.references import REFERENCE, reference_file
from tests.pages.opening import brought, with_heads
from tests.pages.test_checkpoints import asked, fine, opened
from ui.store import upload_quota

EXPECTED = REFERENCE / "torch-prenorm" / "expected.safetensors"

LATER = {*(f"decoder.{i}.cross" for i in range(3)), "decoder.1.self", "decoder.2.self", "log_probs"}
"""What reads a feed-forward net of a model with one encoder and three decoder layers."""


pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def _arrays(**arrays: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)
    return held.getvalue()


def _row(page: AppTest) -> dict[str, object]:
    table = next(one for one in page.dataframe if "largest difference" in one.value)
    return dict(zip(table.value["array"], table.value["agrees"], strict=True))


def test_an_answer_is_right_when_the_maps_agree(monkeypatch):
    own = upload_quota.Ledger()  # sessions of other tests may let go at any moment
    monkeypatch.setattr(upload_quota, "LEDGER", own)
    page = fine(with_heads(brought(opened(), **{"model.pt": reference_file("torch-prenorm").read_bytes()}), 3))
    page = fine(page.button_group(key="show").set_value("check").run())
    assert any("seen.expected(" in code.value and "recording(model)" in code.value for code in page.code)
    page = brought(page, 1, **{"expected.safetensors": EXPECTED.read_bytes()})
    assert any("answer 4 heads" in one.value for one in page.warning)
    page = fine(page.button(key="use-heads").click().run())
    assert asked(page, "button_group", "n_heads").value == 4
    page = fine(asked(page, "button_group", "norm_first").set_value(True).run())
    assert any("does not compute what was expected" in error.value for error in page.error)
    assert _row(page) == {name: name not in LATER for name in _row(page)}
    page = fine(asked(page, "button_group", "activation").set_value("gelu").run())
    assert not page.error
    assert page.warning  # it agrees, and nobody has said so of the marks
    assert any("computes what was expected" in one.value for one in page.success)
    assert all(_row(page).values())
    assert own.held > reference_file("torch-prenorm").stat().st_size
    page = fine(page.button(key="remove").click().run())
    assert not own.held


def test_the_answers_are_found_and_filled_in_when_that_is_pressed():
    """One is answered wrongly before, which is found too; the others are not answered yet."""
    page = brought(opened(), **{"model.pt": reference_file("torch-prenorm").read_bytes()})
    page = fine(page.button_group(key="show").set_value("check").run())
    page = brought(page, 1, **{"expected.safetensors": EXPECTED.read_bytes()})
    page = fine(asked(page, "button_group", "activation").set_value("relu").run())
    assert not page.success
    page = fine(page.button(key="find").click().run())
    right = {"n_heads": 4, "norm_first": True, "activation": "gelu", "scale_embedding": True}
    assert {name: asked(page, "button_group", name).value for name in right} == right
    assert any("computes what was expected" in one.value for one in page.success)
    assert any("these answers alone compute what was expected" in one.value for one in page.info)
    assert all(_row(page).values())


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.npz", _arrays(x=np.zeros(3)), "holds no ids to run"),
        ("a.npz", _arrays(input=np.zeros((2, 9000), np.int8), x=np.zeros(3)), "no whole numbers"),
        ("<img>.npz", b"", "is refused: it is empty"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(name, data, said):
    page = fine(with_heads(brought(opened(), **{"model.pt": reference_file("encoder-only").read_bytes()}), 4))
    page = brought(fine(page.button_group(key="show").set_value("check").run()), 1, **{name: data})
    sentences = [one.value.replace("\\", "") for one in (*page.warning, *page.error)]
    assert any(said in one.lower() for one in sentences), sentences


def test_a_shipped_checkpoint_can_be_checked_too():
    page = fine(opened().button_group(key="show").set_value("check").run())
    data = _arrays(source=np.ones((1, 3), int), target=np.ones((1, 2), int), out=np.zeros(1))
    page = brought(page, 1, **{"e.npz": data})
    assert any("is expected in the shape" in one.value for one in page.warning)
