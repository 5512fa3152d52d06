"""One shipped folder that cannot be read spoils no page: the others are listed, and the page says what is missing."""

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import opening
from tests.pages.tiny import save_tiny

BROKEN = {
    "not UTF-8": b'{"architecture": "seq2seq", "languages": ["\xff\xfe", "x"]}',
    "a wrong type": b'{"architecture": ["seq2seq"], "config": {}}',
    "deep": b"[" * 100_000,
}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that can be read, and a copy of it to break."""
    save_tiny(tmp_path)
    shutil.copytree(tmp_path / "tiny", tmp_path / "broken")
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    return tmp_path


def opened(page: str = "translate", **address: str) -> AppTest:
    at = opening.opened(page, **address)
    assert not at.exception
    return at


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_config_is_told_of_and_the_others_are_listed(kind: str, shipped: Path):
    (shipped / "broken" / "config.json").write_bytes(BROKEN[kind])
    at = opened()
    assert at.selectbox(key="model").options == ["tiny"]
    assert any("roken/config.json is refused" in warning.value for warning in at.warning)
    assert not any("address names" in warning.value for warning in at.warning)


@pytest.mark.parametrize(
    "page", ["map", "align", "masks", "positions", "your_model", "sequences", "attention_steps", "inside_layer"]
)
def test_every_page_opens_beside_a_broken_folder(page: str, shipped: Path):
    (shipped / "broken" / "config.json").write_bytes(BROKEN["not UTF-8"])
    opened(page)
    if page == "positions":
        opened(page, screen="variants")


@pytest.mark.parametrize(
    ("name", "lang", "said"),
    [(name, "en", "another one is shown") for name in ("broken", "../tiny", "gone@000400", "mine/gone")]
    + [("![x](http://x/)", "zh", "现在显示的是另一个")],
)
def test_an_address_of_what_cannot_be_read_is_not_answered_in_silence(name: str, lang: str, said: str, shipped: Path):
    (shipped / "broken" / "config.json").write_bytes(b"{")
    at = opened(model=name, lang=lang)
    assert at.selectbox(key="model").value == "tiny"
    assert any(said in warning.value for warning in at.warning)
    assert not any("![x]" in warning.value for warning in at.warning)


@pytest.mark.usefixtures("shipped")
def test_an_address_of_what_is_here_says_nothing():
    for at in (opened(model="tiny"), opened()):
        assert [w.value for w in at.warning if "address" in w.value or "refused" in w.value] == []


def test_folders_that_fail_later_are_explained(shipped: Path):
    (shipped / "broken" / "examples.json").write_text("7", encoding="utf-8")
    at = opened(model="broken")
    assert any("examples.json is refused: it is no list of texts" in warning.value for warning in at.warning)
