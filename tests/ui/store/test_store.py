"""The names of checkpoints, what the pages list first, and when they load and run anew."""

import ast
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from heedmap import DecodingOptions
from heedmap.errors import CheckpointError
from tests.checkpoint.references import reference_file
from tests.pages.tiny import save_tiny
from ui.store import cache, runs, store, user_folder
from ui.store.refs import CheckpointRef, RefSource, one_look, stamp_of_folder

ROOT = Path(__file__).parents[3]


def test_lists_start_with_the_translator_and_the_classifier_whose_consensus_is_known() -> None:
    names = store.names(RefSource.SHIPPED)
    assert tuple(names[:2]) == store.FIRST
    assert names[2:] == sorted(names[2:])
    assert store.checkpoint_names("kmer")[0] == "splice-junctions"
    assert store.checkpoint_names(*store.TRANSLATORS)[0] == "multi30k-en-de"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny checkpoint stands in for the shipped ones."""
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    save_tiny(tmp_path)
    return tmp_path / "tiny"


def test_replaced_weights_are_read_and_run_anew(folder: Path) -> None:
    options = DecodingOptions(max_length=5)
    before, kept = store.checkpoint("tiny"), runs.translation("tiny", "two dogs", options, None)
    assert store.checkpoint("tiny") is before
    assert runs.translation("tiny", "two dogs", options, None) is kept
    weights = load_file(folder / "model.safetensors")
    stood = (folder / "model.safetensors").stat().st_mtime_ns
    save_file({name: -2 * tensor for name, tensor in weights.items()}, folder / "model.safetensors")
    os.utime(folder / "model.safetensors", ns=(stood + 10**9, stood + 10**9))
    after = store.checkpoint("tiny")
    for name, tensor in after.model.state_dict().items():
        if name in weights:
            torch.testing.assert_close(tensor, (-2 * weights[name]).to(tensor.dtype))
    assert runs.translation("tiny", "two dogs", options, None) is not kept


def test_answers_and_files_of_a_folder_change_its_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folder, "own_folder", lambda: tmp_path)
    shutil.copy(reference_file("annotated"), tmp_path / "model.pt")
    before = store.revision("mine/model.pt")
    assert store.revision("mine/model.pt") == before
    os.utime(tmp_path / "model.pt", ns=(1, 1))
    assert store.revision("mine/model.pt") != before


def test_a_shipped_checkpoint_is_found_without_a_look_at_the_others() -> None:
    every = store.names(RefSource.SHIPPED)
    assert every
    assert all(map(store.is_shipped, map(CheckpointRef.parse, every)))
    others = ("", ".", "..", "multi30k-en-de/..", "multi30k-en-de@000400", "mine/multi30k-en-de", "nothing-here")
    assert not any(map(store.is_shipped, map(CheckpointRef.parse, others)))


def test_a_snapshot_stands_on_the_checkpoint_that_is_loaded_already() -> None:
    cache.clear()
    name = "multi30k-en-de"
    store.checkpoint(name)
    snapshot = next(iter(store.snapshots(name)))
    assert store.checkpoint(snapshot).model is not store.checkpoint(name).model
    assert len(cache.SHARED["ui.store.store.load"].values) == 2


NAMES = {
    "multi30k-en-de": CheckpointRef(RefSource.SHIPPED, "multi30k-en-de"),
    "multi30k-en-de@000400": CheckpointRef(RefSource.SHIPPED, "multi30k-en-de", "000400"),
    "mine/model@3.pt": CheckpointRef(RefSource.USER_FOLDER, "model@3.pt"),
    "upload/a-2": CheckpointRef(RefSource.UPLOAD, "a-2"),
    "upload/mine": CheckpointRef(RefSource.UPLOAD, "mine"),
    "uploads": CheckpointRef(RefSource.SHIPPED, "uploads"),
    "record/a": CheckpointRef(RefSource.RECORD, "a"),
}


def test_a_name_is_read_and_written_as_it_was_and_only_what_is_brought_belongs_to_one_session() -> None:
    for text, ref in NAMES.items():
        assert CheckpointRef.parse(text) == ref
        assert str(ref) == text
    assert [text for text, ref in NAMES.items() if ref.private] == ["upload/a-2", "upload/mine", "record/a"]
    snapshot = NAMES["multi30k-en-de@000400"]
    assert (snapshot.base, snapshot.base.base) == (NAMES["multi30k-en-de"], snapshot.base)


def test_nothing_else_knows_how_names_are_made() -> None:
    prefixes = {origin.value for origin in RefSource if origin.value} | {"@"}
    files = [path for folder in ("ui", "pages") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 40
    found = {
        path.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in prefixes
    }
    assert found == {"refs.py"}


def test_whatever_changes_beside_the_weights_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "name"
    folder.mkdir()
    for name in ("model.safetensors", "config.json", "tokenizer.model"):
        (folder / name).write_bytes(name.encode())
    monkeypatch.setattr(store, "CHECKPOINTS", tmp_path)
    seen = [store.revision("name")]
    for name in ("config.json", "tokenizer.model", "heads.json"):
        (folder / name).write_bytes(b"another")
        seen.append(store.revision("name"))
    config = (folder / "config.json").stat()
    (tmp_path / "copied").write_bytes(b"ANOTHER")
    os.utime(tmp_path / "copied", ns=(config.st_atime_ns, config.st_mtime_ns))
    (tmp_path / "copied").replace(folder / "config.json")  # of the same time and the same size
    seen.append(store.revision("name"))
    assert len(set(seen)) == len(seen)
    assert store.revision("name") == seen[-1]
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        store.revision("name")


def test_one_run_sees_one_state_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"one")
    with one_look():
        first = stamp_of_folder(tmp_path)
        (tmp_path / "config.json").write_bytes(b"another")
        assert stamp_of_folder(tmp_path) == first
    assert stamp_of_folder(tmp_path) != first


def test_the_folder_is_named_by_an_argument_or_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(user_folder.VARIABLE, str(tmp_path / "other"))
    for argv, found in (
        (["app.py", "--checkpoints", "there"], tmp_path / "there"),
        (["app.py", "--other", "x", "--checkpoints=there"], tmp_path / "there"),
        (["app.py"], tmp_path / "other"),
        ([], None),
    ):
        monkeypatch.setattr("sys.argv", argv or ["app.py"])
        if not argv:
            monkeypatch.delenv(user_folder.VARIABLE)
        user_folder.own_folder.cache_clear()
        assert user_folder.own_folder() == found
    user_folder.own_folder.cache_clear()
