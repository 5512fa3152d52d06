"""`faithfulness`: a table that grows a sentence at a time, goes on where it stopped, and a summary of its sums."""

import csv
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


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_that_was_stopped_goes_on(
    folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = tmp_path / "whole.csv", tmp_path / "broken.csv"
    assert run(folder, "--source", source, "--out", whole) == 0
    said = capsys.readouterr()
    assert "1 of 4 lines could not be run" in said.err
    assert "of deletion, rank correlation" in said.out
    lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    second = next(i for i, line in enumerate(lines) if line.startswith("3,"))
    broken.write_text("".join(lines[: second + 2])[:-9], encoding="utf-8")  # in the middle of the last sentence
    ran = []

    def counted(*given: object, **more: object) -> object:
        ran.append(given[1])
        return translate(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(faithfulness, "translate", counted)
    assert run(folder, "--source", source, "--out", broken) == 0
    assert broken.read_bytes() == whole.read_bytes()
    assert ran == ["", "the bird eats."]
    summary = whole.with_suffix(".json").read_text(encoding="utf-8")
    assert broken.with_suffix(".json").read_text(encoding="utf-8") == summary


def test_the_summary_is_the_mean_over_written_words(folder: Path, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "text.de"
    target.write_text("der Hund läuft.\nleer\nder Mann und die Katze schläft.\nder Vogel isst.\n", encoding="utf-8")
    out = tmp_path / "forced.csv"
    assert run(folder, "--source", source, "--target", target, "--out", out) == 0
    checkpoint = load(folder)
    kept, words = np.zeros(5), 0
    for line, forced in zip(LINES, target.read_text(encoding="utf-8").splitlines(), strict=True):
        if line:
            translation = translate(checkpoint, line, forced=forced)
            found = trusted(checkpoint, translation, every_question(checkpoint, translation))["rollout"]
            kept, words = kept + found.comprehensiveness, words + found.rows
    whole = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    assert not whole["own_target"]
    assert {fare["sentences"] for fare in whole["methods"].values()} == {3}
    np.testing.assert_allclose(whole["methods"]["rollout"]["comprehensiveness"], kept / words, atol=1e-4)
    assert whole["methods"]["rollout"]["words"] == words
    assert whole["methods"]["deletion"]["share"] == 1.0
    assert whole["methods"]["random"]["spearman"] is None
    assert {row["method"] for row in table(out)} == set(whole["methods"])


def test_what_a_checkpoint_ships_is_read_from_beside_it(folder: Path, source: Path, tmp_path: Path) -> None:
    checkpoint = load(folder)
    assert faithfulness.shipped(checkpoint) is None
    out = tmp_path / "faithfulness.csv"
    assert run(folder, "--source", source, "--out", out) == 0
    made = faithfulness.summarised(out, own_target=True)
    faithfulness.saved(made, folder / faithfulness.SUMMARY)
    found = faithfulness.shipped(checkpoint)
    assert found is not None
    assert found.fares["norms"].sentences == 3
    assert found.fares["norms"].area == pytest.approx(made.fares["norms"].area, abs=1e-4)
    assert np.isnan(found.fares["random"].spearman)
    for damaged in ("{", "[]", '{"own_target": true, "methods": {}}'):
        (folder / faithfulness.SUMMARY).write_text(damaged, encoding="utf-8")
        with pytest.raises(CheckpointError, match="what `measure faithfulness` writes"):
            faithfulness.shipped(checkpoint)
    assert faithfulness.shipped(replace(checkpoint, name="toy/after-1")) is None
    (folder / faithfulness.SUMMARY).unlink()


def test_some_lines_keep_the_numbers_that_they_have_in_the_file(folder: Path, source: Path, tmp_path: Path) -> None:
    """Two of four, then all: what the table holds is not run again, and each line stands in it once."""
    out = tmp_path / "some.csv"
    assert run(folder, "--source", source, "--rows", 2, "--methods", "weights", "--out", out) == 0
    assert {row["sentence"] for row in table(out)} == {"0", "2"}
    assert run(folder, "--source", source, "--methods", "weights", "--out", out) == 0
    numbers = [row["sentence"] for row in table(out) if row["method"] == "weights"]
    assert numbers == ["0", "2", "3"]


def test_methods_that_are_measured_alone_leave_what_is_known_of_others(
    folder: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each says on how many sentences it rests; its figures are those that it has among all methods."""
    whole, some = tmp_path / "whole.csv", tmp_path / "some.csv"
    assert run(folder, "--source", source, "--out", whole) == 0
    known = json.loads(whole.with_suffix(".json").read_text(encoding="utf-8"))
    stale = json.loads(json.dumps(known))
    for name in ("weights", "integrated_gradients"):
        stale["methods"][name]["area"] = 77.0
    some.with_suffix(".json").write_text(json.dumps(stale), encoding="utf-8")
    asked = ("--methods", "weights", "integrated_gradients")
    assert run(folder, "--source", source, "--rows", 2, *asked, "--out", some) == 0
    part = json.loads(some.with_suffix(".json").read_text(encoding="utf-8"))
    assert part["methods"].keys() == known["methods"].keys()
    fewer = {name for name, fare in part["methods"].items() if fare["sentences"] == 2}
    assert fewer == {"weights", "integrated_gradients"}
    assert all(fare["area"] != 77.0 for fare in part["methods"].values())
    for name in ("norms", "random", "deletion"):
        assert part["methods"][name] == known["methods"][name]
    assert run(folder, "--source", source, *asked, "--out", some) == 0
    assert json.loads(some.with_suffix(".json").read_text(encoding="utf-8")) == known
    capsys.readouterr()
    assert run(folder, "--source", source, "--methods", "saliency", "--out", some) == 2
    assert "there is no method saliency" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [("sentence,other\n1,2\n", "is not a table of this command"), ("", "is not a table of this command")],
)
def test_another_file_is_not_written_over(
    folder: Path, source: Path, tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.csv"
    out.write_text(text, encoding="utf-8")
    assert run(folder, "--source", source, "--out", out) == 2
    assert says in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == text


def test_nothing_that_could_be_run_is_said(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "blank.en"
    empty.write_text("\n \n", encoding="utf-8")
    assert run(folder, "--source", empty, "--out", tmp_path / "blank.csv") == 2
    assert "holds no sentence" in capsys.readouterr().err
