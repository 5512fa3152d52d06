"""Lists of own folders go by configs alone: nothing is loaded for them, and a wrong folder says so once chosen."""

import json
import shutil
from pathlib import Path

import pytest

from tests.checkpoint.huggingface.families import write_folder
from tests.pages.opening import opened
from tests.pages.tiny import save_tiny
from transformer.checkpoint.worker import isolated
from ui.align import choices
from ui.store import cache, store, user_folder

BROKEN = {
    "cut": lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" * 40),
    "no-table": lambda folder: (folder / "config.json").write_text("[1, 2]"),
    "half": lambda folder: (folder / "config.json").write_text('{"model_type": "marian", '),
    "stranger": lambda folder: (folder / "config.json").write_text('{"model_type": "no-such-family"}'),
    "code": lambda folder: _change(folder / "config.json", auto_map={"AutoModel": "evil.Model"}),
    "other-sizes": lambda folder: _change(folder / "config.json", d_model=48),
}


def _change(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    for family in ("marian", "bert", "gpt2"):
        write_folder(place / family, family)
    for name, harm in BROKEN.items():
        shutil.copytree(place / "marian", place / name)
        harm(place / name)
    save_tiny(place)
    return place


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path / "checkpoints")
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path / "checkpoints")
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


def test_a_list_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    for name in ("tried_folder", "load_folder", "load_with", "read_path", "read_files"):
        monkeypatch.setattr(isolated, name, None)
    monkeypatch.setattr(user_folder, "bundle", None)
    found = store.checkpoint_names(*store.TRANSLATORS)
    assert found == ["tiny", "mine/cut", "mine/marian", "mine/other-sizes", "mine/tiny"]
    kinds = {name: store.architecture(f"mine/{name}") for name in ("bert", "gpt2", "no-table", "half", "stranger")}
    assert kinds.pop("bert") == "hugging-face-encoder"
    assert kinds.pop("gpt2") == "hugging-face-decoder"
    assert set(kinds.values()) == {None}
    assert store.architecture("mine/code") is None
    cache.clear()


@pytest.mark.parametrize(
    ("page", "key", "name", "reason"),
    [
        ("translate", "model", "half", "half/config.json is refused: it cannot be read as JSON"),
        ("translate", "model", "cut", "cut/model.safetensors is refused"),
        ("map", "model", "stranger", "does not know the model type 'no-such-family'"),
        ("map", "model", "other-sizes", "other-sizes does not fit its config"),
        ("what_if", "model", "code", "names Python code"),
        ("translate", "model", "bert", "names mine/bert, which this page cannot show: another one is shown"),
    ],
)
def test_a_folder_that_cannot_be_shown_says_so_where_it_is_asked_for(
    page: str, key: str, name: str, reason: str
) -> None:
    shown = opened(page, **{key: f"mine/{name}"})
    assert not shown.exception
    said = [one.value.replace("\\", "") for one in (*shown.warning, *shown.error)]
    assert any(reason in one for one in said), said


def test_models_to_align_are_listed_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which share a tokenizer is told by its files: of two Marian folders, not of one and a model of ours."""
    cache.clear()
    for name in ("tried_folder", "load_folder", "load_with", "read_path", "read_files"):
        monkeypatch.setattr(isolated, name, None)
    assert choices.models() == ["tiny", "mine/cut", "mine/marian", "mine/other-sizes", "mine/tiny"]
    assert choices.vocabulary("mine/cut") == choices.vocabulary("mine/marian") != choices.vocabulary("mine/tiny")
    assert choices.vocabulary("mine/tiny") == choices.vocabulary("tiny")
    cache.clear()
