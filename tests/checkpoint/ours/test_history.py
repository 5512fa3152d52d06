"""Snapshots of a training: read in order, and a damaged index is refused in a sentence."""

import json
from pathlib import Path

import pytest

from transformer.checkpoint.ours.history import snapshots
from transformer.errors import CheckpointError

SHIPPED = Path(__file__).resolve().parents[3] / "checkpoints" / "multi30k-en-de"
ENTRY = {"file": "000002.safetensors", "update": 2, "epoch": 0, "seconds": 1.0, "bleu_greedy": 0.5, "loss": 7.0}


def folder(path: Path, index: str) -> Path:
    (path / "history").mkdir()
    (path / "history" / "index.json").write_text(index, encoding="utf-8")
    for name in ("000002", "000004"):
        (path / "history" / f"{name}.safetensors").touch()
    return path


def test_the_shipped_history_rises_in_updates_and_in_bleu() -> None:
    found = snapshots(SHIPPED)
    assert [snapshot.update for snapshot in found] == [50 * 2**i for i in range(8)]
    assert [snapshot.name for snapshot in found][:2] == ["000050", "000100"]
    assert found[-1].bleu > 30 > found[0].bleu
    assert [snapshot.loss for snapshot in found] == sorted((snapshot.loss for snapshot in found), reverse=True)


def test_the_earliest_comes_first_whatever_the_index_says(tmp_path: Path) -> None:
    later = ENTRY | {"file": "000004.safetensors", "update": 4}
    found = snapshots(folder(tmp_path, json.dumps([later, ENTRY])))
    assert [snapshot.update for snapshot in found] == [2, 4]


def test_without_a_history_there_is_none(tmp_path: Path) -> None:
    assert snapshots(tmp_path) == ()


@pytest.mark.parametrize(
    "index",
    [
        "{", "3", '["a"]', "[{}]", json.dumps([ENTRY | {"update": "x"}]), json.dumps([ENTRY | {"file": "gone"}]),
        json.dumps([ENTRY | {"file": "../../model.safetensors"}]), "[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_index_is_refused(tmp_path: Path, index: str) -> None:
    with pytest.raises(CheckpointError, match=r"index\.json"):
        snapshots(folder(tmp_path, index))
