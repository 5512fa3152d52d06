"""`faithfulness`: how far each method can be trusted, as means over all written words of a text."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import toy
from transformer import __main__ as command_line
from transformer.checkpoint import load
from transformer.errors import CheckpointError
from transformer.runs.attribution import every_question, trusted
from transformer.runs.measures import faithfulness
from transformer.runs.translate import translate

LINES = ("the dog runs.", "", "the man and the cat sleeps.", "the bird eats.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return toy.write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "toy")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.en"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return command_line.main(["measure", "faithfulness", *map(str, arguments), "--quiet"])


def test_the_summary_is_the_mean_over_written_words(
    folder: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "text.de"
    target.write_text("der Hund läuft.\nleer\nder Mann und die Katze schläft.\nder Vogel isst.\n", encoding="utf-8")
    out = tmp_path / "forced.json"
    assert run(folder, "--source", source, "--target", target, "--out", out) == 0
    checkpoint = load(folder)
    kept, words = np.zeros(5), 0
    for line, forced in zip(LINES, target.read_text(encoding="utf-8").splitlines(), strict=True):
        if line:
            translation = translate(checkpoint, line, forced=forced)
            found = trusted(checkpoint, translation, every_question(checkpoint, translation))["rollout"]
            kept, words = kept + found.comprehensiveness, words + found.rows
    whole = json.loads(out.read_text(encoding="utf-8"))
    assert not whole["own_target"]
    assert {fare["sentences"] for fare in whole["methods"].values()} == {3}
    np.testing.assert_allclose(whole["methods"]["rollout"]["comprehensiveness"], kept / words, atol=1e-4)
    assert whole["methods"]["rollout"]["words"] == words
    assert whole["methods"]["deletion"]["share"] == 1.0
    assert whole["methods"]["random"]["spearman"] is None
    said = capsys.readouterr()
    assert "1 of 4 lines could not be run" in said.err
    assert "of deletion, rank correlation" in said.out


def test_what_a_checkpoint_ships_is_read_from_beside_it(folder: Path, source: Path) -> None:
    checkpoint = load(folder)
    assert faithfulness.shipped(checkpoint) is None
    assert run(folder, "--source", source) == 0
    found = faithfulness.shipped(checkpoint)
    assert found is not None
    assert found.fares["norms"].sentences == 3
    assert found.fares["norms"].area == pytest.approx(np.mean(found.fares["norms"].comprehensiveness), abs=1e-4)
    assert np.isnan(found.fares["random"].spearman)
    for damaged in ("{", "[]", '{"own_target": true, "methods": {}}'):
        (folder / faithfulness.SUMMARY).write_text(damaged, encoding="utf-8")
        with pytest.raises(CheckpointError, match="what `measure faithfulness` writes"):
            faithfulness.shipped(checkpoint)
    assert faithfulness.shipped(replace(checkpoint, name="toy/after-1")) is None
    (folder / faithfulness.SUMMARY).unlink()


def test_some_lines_are_spread_over_the_file(
    folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def noted(*given: object, **more: object) -> object:
        ran.append(given[1])
        return translate(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(faithfulness, "translate", noted)
    asked = ("--rows", 2, "--out", tmp_path / "some.json")
    assert run(folder, "--source", source, *asked) == 0
    assert ran == [LINES[0], LINES[2]]


def test_nothing_that_could_be_run_is_said(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "blank.en"
    empty.write_text("\n \n", encoding="utf-8")
    assert run(folder, "--source", empty, "--out", tmp_path / "blank.json") == 2
    assert "none of 2 lines could be run" in capsys.readouterr().err
