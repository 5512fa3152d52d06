"""`python -m tools.train`: one sentence for each mistake, and small tasks."""

from pathlib import Path

import pytest

from tools.train.__main__ import main
from transformer.training.snapshots import unpacked
from transformer.training.tasks import Settings


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["translation", "--data=DATA", "--out=DATA/x", "--work=DATA/w"], "train.en cannot be read"),
        (["translation", "--data=DATA", "--out=DATA/x", "--dropout=1"], "dropout=1.0 makes no run: choose a prob"),
        (["classification", "--data=DATA", "--out=DATA/x", "--work=DATA/w"], "train.tsv cannot be read"),
        (["task", "task=steal", "--updates=1", "--out=DATA/x"], "task=steal makes no run: choose one of reverse"),
        (["task", "d_model=16", "--updates=0", "--out=DATA/no/x"], "No such file"),
    ],
)
def test_mistakes_end_with_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([one.replace("DATA", str(tmp_path)) for one in arguments]) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert sentence.startswith("error: ")
    assert says in sentence


def test_a_small_task_is_recorded_after_the_updates_that_were_named(tmp_path: Path) -> None:
    out = tmp_path / "sort.safetensors"
    assert main(["task", "task=sort", "d_model=16", "--updates=2,0", "--last-weights", f"--out={out}"]) == 0
    settings, snapshots = unpacked(out.read_bytes())
    assert settings == Settings(task="sort", d_model=16)
    assert [(one.measures.update, bool(one.weights)) for one in snapshots] == [(0, False), (2, True)]
