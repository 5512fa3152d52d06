"""The Translate page with a recurrent model: every view works on its record of one site and one head."""

from pathlib import Path

import pytest

from tests.pages.test_translate import opened, written
from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents

VIEWS = ("Heatmap", "Head view", "Step by step", "Beams", "Downloads")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints_with_recurrents(tmp_path_factory.mktemp("recurrent"))


@pytest.fixture(autouse=True)
def _checkpoints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", [ADDITIVE, LOCATION])
def test_every_view_shows_the_one_attention(name: str, view: str) -> None:
    page = opened(model=name, view=view, longest="10")
    assert not page.warning
    assert written(page)
    assert page.button_group(key="kind").options == ["Cross"]
    assert page.button_group(key="layer").options == ["0"]
    assert page.button_group(key="head").options == ["0", "mean"]


def test_a_layer_that_the_other_model_lacks_falls_back() -> None:
    page = opened(layer="3", head="2", kind="Encoder self", longest="10")
    assert page.selectbox(key="model").options == ["multi30k-en-de", ADDITIVE, LOCATION]
    page.selectbox(key="model").set_value(ADDITIVE).run()
    assert not page.exception
    assert page.button_group(key="layer").value == "0"
    assert page.button_group(key="kind").value == "decoder.cross"
