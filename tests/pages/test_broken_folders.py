"""Folders of other libraries: those that fit are listed and run; a wrong one says so and spoils no list."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from heedmap import DecodingOptions
from heedmap.checkpoint.huggingface import library as extra
from heedmap.checkpoint.worker import isolated
from heedmap.runs.any_model import run_any
from tests.checkpoint.huggingface.families import write_folder
from tests.pages.opening import head_shown, opened, ran, told
from tests.pages.tiny import save_tiny
from ui.align import choices
from ui.store import cache, store, user_folder

TEXT = "the dog runs."
TRANSLATORS = ["tiny", "mine/cut", "mine/marian", "mine/other-sizes", "mine/tiny"]
CHARSMAP = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
BROKEN = {
    "cut": lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" * 40),
    "no-table": lambda folder: (folder / "config.json").write_text("[1, 2]"),
    "half": lambda folder: (folder / "config.json").write_text('{"model_type": "marian", '),
    "stranger": lambda folder: (folder / "config.json").write_text('{"model_type": "no-such-family"}'),
    "code": lambda folder: _change(folder / "config.json", auto_map={"AutoModel": "evil.Model"}),
    "other-sizes": lambda folder: _change(folder / "config.json", d_model=48),
    "panics": lambda folder: _change(folder / "tokenizer.json", normalizer=CHARSMAP),
}


def _change(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    for family in ("marian", "bert", "gpt2"):
        write_folder(place / family, family)
    for name, harm in BROKEN.items():
        shutil.copytree(place / ("gpt2" if name == "panics" else "marian"), place / name)
        harm(place / name)
    save_tiny(place)
    return place


@pytest.fixture
def _own(tmp_path: Path, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path / "checkpoints")
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path / "checkpoints")
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


@pytest.mark.usefixtures("_own")
def test_a_list_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models to align too: which share a tokenizer is told by its files, of two Marian folders, not of one of ours."""
    cache.clear()
    for name in ("tried_folder", "load_folder", "load_with", "read_path", "read_files"):
        monkeypatch.setattr(isolated, name, None)
    assert choices.models() == TRANSLATORS
    assert choices.vocabulary("mine/cut") == choices.vocabulary("mine/marian") != choices.vocabulary("mine/tiny")
    assert choices.vocabulary("mine/tiny") == choices.vocabulary("tiny")
    monkeypatch.setattr(store, "bundled", None)
    assert store.checkpoint_names(*store.TRANSLATORS) == TRANSLATORS
    kinds = {
        name: store.architecture(f"mine/{name}") for name in ("bert", "gpt2", "no-table", "half", "stranger", "code")
    }
    assert (kinds.pop("bert"), kinds.pop("gpt2")) == ("hugging-face-encoder", "hugging-face-decoder")
    assert set(kinds.values()) == {None}
    cache.clear()


@pytest.mark.usefixtures("_own")
@pytest.mark.parametrize(
    ("page", "name", "reason"),
    [
        ("translate", "half", "half/config.json is refused: it cannot be read as JSON"),
        ("translate", "cut", "cut/model.safetensors is refused"),
        ("map", "stranger", "does not know the model type 'no-such-family'"),
        ("map", "other-sizes", "other-sizes does not fit its config"),
        ("what_if", "code", "names Python code"),
        ("your_model", "panics", "anics's tokenizer is refused"),
        ("translate", "bert", "names mine/bert, which this page cannot show: another one is shown"),
    ],
)
def test_a_folder_that_cannot_be_shown_says_so_where_it_is_asked_for(page: str, name: str, reason: str) -> None:
    shown = opened(page, model=f"mine/{name}")
    said = [one.value.replace("\\", "") for one in (*shown.warning, *shown.error)]
    assert any(reason in one for one in said), said


@pytest.mark.usefixtures("_own")
@pytest.mark.parametrize(
    ("script", "model", "key", "site"),
    [("translate", "mine/marian", "text", "decoder.1.cross"), ("your_model", "mine/bert", "input", "encoder.1.self")],
)
def test_a_page_lists_those_that_it_can_show_and_runs_one(script: str, model: str, key: str, site: str) -> None:
    page = opened(script, **({"longest": "5"} if script == "translate" else {}))
    page.selectbox(key="model").set_value(model).run()
    every = [*(f"mine/{name}" for name in sorted([*BROKEN, "bert", "gpt2", "marian", "tiny"])), "tiny"]
    assert page.selectbox(key="model").options == (TRANSLATORS if script == "translate" else every)
    page = ran(page, **{key: TEXT})
    page.toggle(key="words").set_value(False)
    page = told(page, layer="1", head="2")
    run = run_any(store.checkpoint(model), TEXT, DecodingOptions(beam=5, max_length=5))
    np.testing.assert_allclose(head_shown(page)[1].clip(0), run.record[site].weights(2), atol=1e-6)


@pytest.mark.usefixtures("_own")
def test_without_the_library_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    extra.library.cache_clear()
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "pip install -r requirements-hf.txt" in opened("your_model", model="mine/bert").warning[0].value
    assert opened("translate", model="tiny").selectbox(key="model").options == ["tiny", "mine/tiny"]
    cache.clear()
    extra.library.cache_clear()


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that can be read, and a copy of it to break."""
    save_tiny(tmp_path)
    shutil.copytree(tmp_path / "tiny", tmp_path / "broken")
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    return tmp_path


def beside(page: str = "translate", **address: str) -> AppTest:
    return opened(page, **address)


@pytest.mark.parametrize(
    "page", ["map", "align", "masks", "positions", "your_model", "sequences", "attention_steps", "inside_layer"]
)
def test_every_page_opens_beside_a_broken_folder(page: str, shipped: Path):
    (shipped / "broken" / "config.json").write_bytes(b'{"architecture": "seq2seq", "languages": ["\xff\xfe", "x"]}')
    beside(page)
    if page == "positions":
        beside(page, screen="variants")


@pytest.mark.parametrize(
    ("name", "lang", "said"),
    [(name, "en", "another one is shown") for name in ("broken", "../tiny", "gone@000400", "mine/gone")]
    + [("![x](http://x/)", "zh", "现在显示的是另一个")],
)
def test_an_address_of_what_cannot_be_read_is_not_answered_in_silence(name: str, lang: str, said: str, shipped: Path):
    (shipped / "broken" / "config.json").write_bytes(b"{")
    at = beside(model=name, lang=lang)
    assert at.selectbox(key="model").value == "tiny"
    assert any(said in warning.value for warning in at.warning)
    assert not any("![x]" in warning.value for warning in at.warning)


def test_what_is_broken_is_told_of_and_an_address_of_what_is_here_says_nothing(shipped: Path):
    for at in (beside(model="tiny"), beside()):
        assert [w.value for w in at.warning if "address" in w.value or "refused" in w.value] == []
    (shipped / "broken" / "examples.json").write_text("7", encoding="utf-8")
    at = beside(model="broken")
    assert at.selectbox(key="model").value == "broken"
    assert any("examples.json is refused: it is no list of texts" in warning.value for warning in at.warning)
    (shipped / "broken" / "config.json").write_bytes(b"[" * 100_000)
    at = beside()
    assert at.selectbox(key="model").options == ["tiny"]
    assert any("roken/config.json is refused" in warning.value for warning in at.warning)
    assert not any("address names" in warning.value for warning in at.warning)
