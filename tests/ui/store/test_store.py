"""What the pages list first, and when they load and run anew."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.checkpoint.references import reference_file
from tests.pages.tiny import save_tiny
from transformer import DecodingOptions
from ui.store import cache, runs, shipped, store, user_folder
from ui.store.refs import CheckpointRef, Origin
from ui.store.shipped import Shipped


def test_lists_start_with_the_translator_and_the_classifier_whose_consensus_is_known() -> None:
    names = store.names(Origin.SHIPPED)
    assert tuple(names[:2]) == shipped.FIRST
    assert names[2:] == sorted(names[2:])
    assert store.checkpoint_names("kmer")[0] == "splice-junctions"
    assert store.checkpoint_names(*store.TRANSLATORS)[0] == "multi30k-en-de"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny checkpoint stands in for the shipped ones."""
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
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


@pytest.mark.parametrize(
    "name", ["", ".", "..", "multi30k-en-de/..", "multi30k-en-de@000400", "mine/multi30k-en-de", "nothing-here"]
)
def test_a_shipped_checkpoint_is_found_without_a_look_at_the_others(name: str) -> None:
    shipped = Shipped()
    every = shipped.refs()
    assert every
    assert all(map(shipped.has, every))
    assert not shipped.has(CheckpointRef.parse(name))


def test_a_snapshot_stands_on_the_checkpoint_that_is_loaded_already() -> None:
    cache.clear()
    name = "multi30k-en-de"
    store.checkpoint(name)
    snapshot = next(iter(store.snapshots(name)))
    assert store.checkpoint(snapshot).model is not store.checkpoint(name).model
    assert len(cache.shared()["ui.store.shipped._folder"]) == 1
