"""The panel Check of the page Your model: what is expected is dropped once, and compared after every answer."""

import io

import numpy as np
import pytest
from safetensors.torch import load_file
from streamlit.testing.v1 import AppTest

from tests.checkpoint.references import REFERENCE, reference_file
from tests.pages.opening import with_heads
from tests.pages.test_checkpoints import asked, brought, fine, opened, shipped  # noqa: F401  (a fixture)
from ui.store import upload_quota

ENCODER = reference_file("encoder-only")
EXPECTED = REFERENCE / "torch-prenorm" / "expected.safetensors"

LATER = {*(f"decoder.{i}.cross" for i in range(3)), "decoder.1.self", "decoder.2.self", "log_probs"}
"""What reads a feed-forward net of a model with one encoder and three decoder layers."""


def _dropped(page: AppTest, name: str, data: bytes) -> AppTest:
    page.file_uploader[1].set_value([(name, data, "application/octet-stream")])
    return fine(page.run())


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
    page = _dropped(page, "expected.safetensors", EXPECTED.read_bytes())
    assert any("answer another number of heads" in one.value for one in page.warning)
    for question, answer in {"n_heads": 4, "norm_first": True}.items():
        page = fine(asked(page, "button_group", question).set_value(answer).run())
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
    page = brought(opened(), **{"model.pt": reference_file("torch-prenorm").read_bytes()})
    page = fine(page.button_group(key="show").set_value("check").run())  # nothing is answered yet
    page = _dropped(page, "expected.safetensors", EXPECTED.read_bytes())
    assert not page.success
    page = fine(page.button(key="find").click().run())
    right = {"n_heads": 4, "norm_first": True, "activation": "gelu", "scale_embedding": True}
    assert {name: asked(page, "button_group", name).value for name in right} == right
    assert any("computes what was expected" in one.value for one in page.success)
    assert any("these answers alone compute what was expected" in one.value for one in page.info)
    assert all(_row(page).values())
    page = fine(asked(page, "button_group", "activation").set_value("relu").run())
    assert any("does not compute what was expected" in error.value for error in page.error)
    page = fine(page.button(key="find").click().run())  # what was answered wrongly is found, too
    assert asked(page, "button_group", "activation").value == "gelu"


def test_what_no_answers_compute_is_said_and_nothing_is_filled_in():
    arrays = {name: tensor.numpy() for name, tensor in load_file(ENCODER.parent / "expected.safetensors").items()}
    arrays["hidden"] = arrays["hidden"][..., ::-1]
    page = brought(opened(), **{"model.pt": ENCODER.read_bytes()})
    page = fine(page.button_group(key="show").set_value("check").run())
    page = fine(_dropped(page, "expected.npz", _arrays(**arrays)).button(key="find").click().run())
    assert any(one.value.startswith("No combination of answers") for one in page.warning)
    assert asked(page, "button_group", "n_heads").value is None


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
    page = _dropped(fine(page.button_group(key="show").set_value("check").run()), name, data)
    sentences = [one.value.replace("\\", "") for one in (*page.warning, *page.error)]
    assert any(said in one.lower() for one in sentences), sentences


def test_a_shipped_checkpoint_can_be_checked_too():
    page = fine(opened().button_group(key="show").set_value("check").run())
    page = _dropped(page, "e.npz", _arrays(source=np.ones((1, 3), int), target=np.ones((1, 2), int), out=np.zeros(1)))
    assert any("is expected in the shape" in one.value for one in page.warning)
