"""The Translate page with a recurrent model: every view works on its record of one site and one head."""

from pathlib import Path

import pytest

from tests.pages.opening import chosen, record_sent
from tests.pages.test_translate import opened, written
from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents

VIEWS = ("Heatmap", "Head view", "Step by step", "Beams", "Downloads")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints_with_recurrents(tmp_path_factory.mktemp("recurrent"))


@pytest.fixture(autouse=True)
def _checkpoints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


@pytest.mark.parametrize(("name", "view"), [(ADDITIVE, view) for view in VIEWS] + [(LOCATION, VIEWS[0])])
def test_every_view_shows_the_one_attention(name: str, view: str) -> None:
    page = opened(model=name, view=view, longest="10")
    assert not page.warning
    assert written(page)
    (weights,) = (weights for _, weights in record_sent(page).values())
    assert (list(record_sent(page)), weights.shape[:2]) == (["decoder.cross"], (1, 1))


def test_a_layer_that_the_other_model_lacks_falls_back() -> None:
    page = opened(layer="3", head="2", kind="Encoder self", longest="10")
    assert page.selectbox(key="model").options == ["multi30k-en-de", ADDITIVE, LOCATION]
    page.selectbox(key="model").set_value(ADDITIVE).run()
    assert not page.exception
    assert chosen(page) == ("decoder.cross", 0, 0)
