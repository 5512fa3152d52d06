"""The page "Positions": first paint, every screen and control, experiments, hostile input."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.tiny import save_tiny
from transformer.lessons.positions import LATER, VARIANTS, position_table
from ui import cached
from ui.components.blob import unpack
from ui.positions import SCREENS, TRY

PAGE = Path(__file__).parents[2] / "pages" / "positions.py"


def page(**address: str) -> AppTest:
    at = AppTest.from_file(str(PAGE), default_timeout=60)
    at.query_params.update(address)
    return at.run()


def fine(at: AppTest) -> AppTest:
    assert not at.exception
    assert not at.warning
    return at


def plotted(at: AppTest, place: int = 0) -> dict[str, Any]:
    return json.loads(at.get("plotly_chart")[place].proto.spec)["data"][0]


def array(packed: Any) -> np.ndarray:
    """Numbers as Plotly sends them: a list, or base64 with its type and shape."""
    if isinstance(packed, list):
        return np.array(packed)
    flat = np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"])
    return flat.reshape([int(n) for n in packed["shape"].split(",")]) if "shape" in packed else flat


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path)
    monkeypatch.setattr(cached, "CHECKPOINTS", tmp_path)


def test_the_first_paint_is_the_table_of_the_paper():
    np.testing.assert_allclose(array(plotted(fine(page()))["z"]), position_table("paper", 100, 64))


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_screen_in_every_language(screen: str, lang: str):
    fine(page(screen=screen, lang=lang))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_table_follows_every_control(variant: str):
    at = fine(page(variant=variant, d_table="7", n_rows="9", base="100"))
    expected = position_table(variant, 9, 7, 100.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(array(plotted(at)["z"]), expected)
    fine(page(screen="distance", variant=variant))


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant != "paper"])
def test_variants_stand_beside_the_paper_with_the_difference(variant: str):
    at = fine(page(screen="variants", other=variant, d_table="8", n_rows="10"))
    paper, other, difference = (array(plotted(at, place)["z"]) for place in range(3))
    np.testing.assert_allclose(difference, other - paper)


def test_curves_name_their_wavelength():
    at = fine(page(screen="waves", d_table="16"))
    assert plotted(at)["name"] == "dimension 0, wavelength 6.3"


def test_the_rotation_is_exact():
    at = fine(page(screen="rotation", steps="7", d_table="8"))
    assert "over all 93 positions p: " in at.markdown[-1].value
    _, arrays = unpack(at.get("bidi_component")[0].proto.bytes)
    turn = arrays["R"].reshape(8, 8)
    np.testing.assert_allclose(turn @ turn.T, np.eye(8), atol=1e-6)


def test_an_odd_size_has_no_rotation():
    at = page(screen="rotation", d_table="7")
    assert not at.exception
    assert "choose an even number" in at.warning[0].value


@pytest.mark.parametrize("how", LATER)
def test_every_way_on_the_same_words(how: str):
    at = fine(page(screen="later", how=how))
    _, arrays = unpack(at.get("bidi_component")[0].proto.bytes)
    np.testing.assert_allclose(arrays["none"].reshape(5, 5)[0], arrays["none"].reshape(5, 5)[3])


@pytest.mark.parametrize("made", ["toy", "shipped"])
@pytest.mark.usefixtures("shipped")
def test_without_positions_order_is_nothing(made: str):
    at = fine(page(screen="order", made=made, draw="3"))
    without, with_them = (float(metric.value) for metric in at.metric)
    assert without < 1e-12
    assert with_them > 1e-3


def test_the_learned_table_ends_with_a_clear_error():
    at = fine(page(screen="end", ready="16", asked="17"))
    assert "17 positions are more than the 16" in at.error[0].value
    assert not fine(page(screen="end", ready="16", asked="16")).error


@pytest.mark.usefixtures("shipped")
def test_the_share_of_positions_is_said():
    at = fine(page(screen="share", made="shipped"))
    table = at.dataframe[0].value
    assert list(table.columns) == ["token", "embedding", "position", "sum", "share of position"]
    assert table["share of position"].between(0, 1, inclusive="neither").all()
    at.text_input(key="source").set_value("").run()
    assert "empty" in at.warning[0].value


@pytest.mark.parametrize("name", TRY)
def test_try_this_sets_the_controls(name: str):
    at = page(screen="waves", d_table="6", base="10")
    at.button(key=f"positions.{name}").click().run()
    fine(at)
    for key, value in TRY[name].items():
        assert at.session_state[key] == value


@pytest.mark.parametrize(
    "address",
    [{"base": "0"}, {"d_table": "1e3"}, {"n_rows": "-1"}, {"variant": "<b>"}, {"screen": "?"}, {"steps": "500"}],
)
def test_a_hostile_address_is_ignored(address: dict[str, str]):
    fine(page(**address))
    fine(page(**{"screen": "rotation", **address}))
