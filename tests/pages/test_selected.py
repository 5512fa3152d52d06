"""What is selected on Translate stands in the address in words, and goes where it would mean something else.

Here the server draws all of it, as it does records that are too large for the browser: see `test_in_browser`.
"""

import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import address_of, fine, opened, sent
from transformer import DecodingOptions, Record
from ui.store import runs

TEXT = {"text": "two dogs", "longest": "10"}
OPTIONS = DecodingOptions(max_length=10)


@pytest.fixture(autouse=True)
def _by_server(shipped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.shared.in_browser.MOST_BYTES", 0)  # what the browser has, it draws by itself


def page(**address: str) -> AppTest:
    return fine(opened("translate", **TEXT, **address))


def record() -> Record:
    return runs.translation("tiny", TEXT["text"], OPTIONS, None).record


def moved(at: AppTest, key: str, value: str) -> AppTest:
    at.button_group(key=key).set_value(value)
    return fine(at.run())


def texts(at: AppTest) -> str:
    return "\n".join(part.value for part in at.text)


def test_a_pair_is_kept_as_words_and_goes_with_kind_and_merging() -> None:
    picture = record()["decoder.0.cross"].picture(0, words=True)
    query, key = picture.queries.labels[1], picture.keys.labels[2]
    at = page(pair="1-2", head="0")  # as older addresses have it
    assert address_of(at)["pair"] == f"decoder.cross:{query}|{key}"
    assert f"{query}  looks at  {key}" in texts(at)
    assert np.allclose(at.dataframe[0].value.iloc[0, 0], picture.values[1, 2], atol=1e-6)
    assert address_of(moved(at, "head", "1"))["pair"] == f"decoder.cross:{query}|{key}"
    at = moved(at, "kind", "encoder.self")
    assert "pair" not in address_of(at)
    assert "looks at" not in texts(at)
    assert "pair" not in address_of(page(pair="decoder.cross:nobody|nothing"))
    assert "pair" not in address_of(page(pair="encoder.self:1|2"))


def test_a_masked_pair_is_masked_and_has_no_weight() -> None:
    picture = record()["decoder.0.self"].picture(0, words=True)
    query, key = (int(place[0]) for place in np.nonzero(~picture.visible))
    said = f"{picture.queries.labels[query]}|{picture.keys.labels[key]}"
    at = page(kind="decoder.self", pair=f"decoder.self:{said}")
    assert "masked" in texts(at)
    assert "looks at" not in texts(at)
    assert not at.dataframe


def test_heads_of_the_head_view_are_state_until_another_head_is_chosen() -> None:
    at = page(view="head_view", head="0", heads="0,1")
    assert active(at) == [0, 1]
    assert active(page(view="head_view", head="0", heads="none")) == []
    assert active(page(view="head_view", head="0", heads="7")) == [0]
    at = moved(at, "head", "1")
    assert active(at) == [1]
    assert "heads" not in address_of(at)


def test_mean_draws_the_mean() -> None:
    header, arrays = sent(page(view="head_view", head="mean"), "head-view")
    expected = record()["decoder.0.cross"].picture("mean", words=True)
    assert header["heads"] == ["mean"]
    weights = arrays["weights"].reshape(header["shape"])
    np.testing.assert_allclose(weights[0], expected.values, atol=1e-6)


@pytest.mark.parametrize(("old", "new"), [("0", "1"), ("2", "3")])
def test_steps_count_from_one_and_older_addresses_from_zero(old: str, new: str) -> None:
    at, again = page(view="steps", step=old), page(view="steps", written=new)
    assert at.slider(key="written").value == int(new)
    assert address_of(at) == address_of(again)
    count = len(runs.translation("tiny", TEXT["text"], OPTIONS, None).steps)
    assert any(part.value.startswith(f"Step {new} of {count} writes") for part in at.markdown)


def active(at: AppTest) -> list[int]:
    """The heads that the head view was told to draw."""
    part = next(part.proto for part in at.get("bidi_component") if part.key == "head-view.options")
    found: list[int] = json.loads(part.json)["active"]
    return found
