"""Our own folders, written by someone else: links, sizes and configs that claim more than the weights hold."""

import json
import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.checkpoint.references import model, reference_file
from transformer.checkpoint import ReadLimits, load
from transformer.checkpoint.ours.convert import convert
from transformer.errors import CheckpointError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    convert(reference_file("torch-prenorm"), tmp_path / "ours", n_heads=4, scale_embedding=True)
    return tmp_path / "ours"


def _change(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    about = json.loads(file.read_text(encoding="utf-8"))
    about["config"] |= changes
    file.write_text(json.dumps(about), encoding="utf-8")


def test_a_folder_that_is_in_order_is_loaded(folder):
    assert model(folder).config.n_heads == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 10**12}, "gives d_model as 1000000000000"),
        ({"d_model": 2_000_000_000, "max_length": 1}, "a table of 1 positions"),
        ({"d_ff": 2_000_000_000}, "the weights hold"),
        ({"source_vocab": 2_000_000_000}, "the weights hold"),
        ({"n_encoder_layers": 1_000_000_000}, "1,000,000,000 layers"),
        ({"max_length": 2_000_000_000}, "a table of 2,000,000,000 positions"),
        ({"d_model": 1.5}, "gives d_model as 1.5"),
        ({"d_model": True}, "gives d_model as True"),
        ({"norm_first": 1}, "gives norm_first as 1"),
        ({"dropout": float("nan")}, "gives dropout as nan"),
        ({"activation": ["relu"]}, "gives activation as"),
        ({"colour": "blue"}, "holds 'colour'"),
        ({"n_heads": 5}, "does not describe a known model"),
        ({"d_ff": 41}, "does not fit its config"),
    ],
)
def test_a_config_that_the_weights_cannot_be_is_refused_before_memory_is_taken(folder, changes, message):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _change(folder, **changes)
    with pytest.raises(CheckpointError, match=message):
        load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_a_config_that_is_no_json_is_refused(folder, text):
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot be read as JSON"):
        load(folder)


@pytest.mark.parametrize(
    "about",
    [
        [],
        "x",
        {},
        {"architecture": "x", "config": {}},
        {"architecture": ["seq2seq"], "config": {}},
        {"architecture": "seq2seq", "config": 7},
        {"architecture": "seq2seq", "config": [1, 2]},
        {"architecture": "seq2seq", "config": {}},
    ],
)
def test_a_config_that_says_nothing_is_refused(folder, about):
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(CheckpointError, match="does not describe a known model"):
        load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "CARD.md", "tokenizer.model"])
def test_links_out_of_a_folder_of_ours_are_refused(folder, tmp_path, name):
    target = tmp_path / "elsewhere"
    target.write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    with pytest.raises(CheckpointError, match="a link that leads out of its folder"):
        load(folder)


def test_files_that_are_too_large_are_refused(folder):
    with pytest.raises(CheckpointError, match="at most 100 are read"):
        load(folder, limits=ReadLimits(file_bytes=100))
    (folder / "examples.json").write_bytes(b" " * (9 * 1024 * 1024))
    with pytest.raises(CheckpointError, match=r"examples\.json is refused"):
        load(folder)


def test_damaged_weights_are_refused(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is refused: its header describes"):
        load(folder)


def test_a_folder_of_ours_needs_no_answers(folder):
    with pytest.raises(CheckpointError, match="leave out n_heads"):
        load(folder, n_heads=4)


def test_a_pickle_beside_the_weights_is_not_touched(folder):
    torch.save(torch.nn.Linear(2, 3), folder / "model.pt")
    assert model(folder).config.n_heads == 4
