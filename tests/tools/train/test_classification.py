"""Classifiers: what the folder holds, tables that are refused, scores and temperature."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedmap.checkpoint import load
from heedmap.runs.sequences.classify import classify
from heedmap.sequences.fasta import read_fasta
from tests.tools.train.conftest import LENGTH, SMALL, classifying
from tools import ToolError
from tools.train.__main__ import main
from tools.train.classification import Scores, export, fitted_temperature


def test_hidden_letters_are_as_many_as_the_options_say_and_only_in_training(tables: Path, tmp_path: Path) -> None:
    loss = classifying(tables, tmp_path, hidden=0.25).task.loss
    seen: list[torch.Tensor] = []
    loss.get_submodule("model").register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    letters, labels = torch.full((2_000, LENGTH), 2), torch.zeros(2_000, dtype=torch.long)
    for training in (True, False):
        loss.train(training)(letters, labels)
    assert (seen[0] == 4).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert torch.equal(seen[1], letters)


def test_the_folder_says_what_the_training_said(tables: Path, tmp_path: Path) -> None:
    run = classifying(tables, tmp_path / "run", rows_as_examples=True)
    run.train()
    said = export(run, tmp_path / "small", "the command")
    checkpoint = load(tmp_path / "small")
    assert checkpoint.task.background == "N"
    letters, labels = run.task.valid
    texts = ["".join("ACGTN"[i] for i in row) for row in letters.tolist()]
    found = [classify(checkpoint, text).probabilities for text in texts]
    scores = Scores.of(np.array(found), labels.numpy())
    assert said == f"accuracy {scores.accuracy:.4f}, MCC {scores.mcc:.4f}"
    assert checkpoint.examples[0] == f">valid-0 EI\n{texts[0]}"
    with (tmp_path / "small" / "examples.fa").open("rb") as file:
        assert [record.description for record in read_fasta(file)] == ["EI"] * 15 + ["IE"] * 15 + ["N"] * 15
    card = (tmp_path / "small" / "CARD.md").read_text()
    for part in ("the command", "licence are not recorded", "Matthews correlation", "temperature of", "30, 35, 40,"):
        assert part in card


@pytest.mark.parametrize(
    ("train", "options", "says"),
    [
        ("x\tACG\tN\ny\tACG\tN", {}, "needs two classes"),
        ("x\tACG\tN\ny\tAC\tEI", {}, "sequences of 2 letters, but the task has 3"),
        ("x\tACG\tM\ny\tACT\tEI", {}, "holds the label 'N'"),
        ("x\tACG\tN\ny\tACT\tEI", {}, "2 rows are left to train on, fewer than one batch of 16"),
        ("x\tACG\tN\ny\tACT\tEI", dict(batch=2, widths="2,4"), "a window of 4 letters does not fit"),
        ("x\tACG\tN\ny\tACT\tEI", dict(widths="3,x"), "widths=3,x makes no run: choose"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(tmp_path: Path, train: str, options: dict[str, Any], says: str) -> None:
    for name, rows in (("train", train), ("valid", "x\tACG\tN")):
        (tmp_path / f"{name}.tsv").write_text(f"id\tsequence\tlabel\n{rows}\n")
    with pytest.raises(ToolError, match=says):
        classifying(tmp_path, tmp_path / "run", **options, background="")


def test_the_command_trains_and_writes(tables: Path, tmp_path: Path) -> None:
    """Rows stay at home, since nobody said that they may be examples."""
    given = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    base = ["classification", "--data", str(tables), *given, "--updates", "2"]
    assert main([*base, "--out", str(tmp_path / "made"), "--work", str(tmp_path / "run")]) == 0
    made = load(tmp_path / "made")
    assert made.task.classes == ("EI", "IE", "N")
    assert made.examples == ()
    assert not (tmp_path / "made" / "examples.fa").exists()
    assert "python -m tools.train classification" in (tmp_path / "made" / "CARD.md").read_text()


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(lambda c: min(c[0] + c[1], c[2] + c[3]) > 0))
def test_mcc_of_two_classes_is_the_known_formula(cells: list[int]) -> None:
    tn, fp, fn, tp = cells
    spread = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    expected = (tp * tn - fp * fn) / spread if spread else 0.0
    assert Scores(np.array([[tn, fp], [fn, tp]])).mcc == pytest.approx(expected)


def test_confusion_accuracy_and_recalls() -> None:
    scores = Scores.of(np.eye(3)[[0, 0, 1, 2, 1]], np.array([0, 1, 1, 2, 2]))
    assert scores.confusion.tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert scores.accuracy == pytest.approx(3 / 5)
    assert scores.recalls == (1.0, 0.5, 0.5)
    assert Scores(np.array([[3, 0], [0, 0]])).recalls == (1.0, 0.0)  # a class without rows has none


def test_temperature_finds_what_logits_were_multiplied_by() -> None:
    honest = torch.randn(20_000, 3, dtype=torch.float64) * 2
    labels = torch.multinomial(honest.softmax(1), 1)[:, 0]
    assert fitted_temperature(honest * 2.5, labels) == pytest.approx(2.5, rel=0.05)
    assert fitted_temperature(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])) == 100.0
