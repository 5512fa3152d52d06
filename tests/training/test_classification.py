"""A sequence classifier from a table to a folder: small, seeded, stopped and resumed, and read back."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.test_run import assert_same, curve, state
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.errors import TrainingError
from transformer.runs.sequences.classify import classify
from transformer.sequences.fasta import read_fasta
from transformer.training.classification import Classification
from transformer.training.classifier_folder import calibration_errors, export, fitted_temperature
from transformer.training.options import ClassificationOptions
from transformer.training.run import Run

LENGTH = 20
SMALL: dict[str, Any] = dict(
    d_model=8, n_heads=2, d_ff=8, widths="2,3", batch=16, updates=40, warmup=5, peak_rate=0.03, save_every=5,
    validate_every=10, average=3, background="N",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables whose classes are told apart by two letters in the middle."""
    folder, generator = tmp_path_factory.mktemp("sequences"), np.random.default_rng(3)
    for part, count in (("train", 90), ("valid", 45)):
        rows = ["id\tsequence\tlabel"]
        for i in range(count):
            label = ("EI", "IE", "N")[i % 3]
            letters = generator.choice(list("ACGT"), LENGTH)
            letters[9:11] = list({"EI": "GT", "IE": "AG", "N": "CC"}[label])
            rows.append(f"{part}-{i}\t{''.join(letters)}\t{label}")
        (folder / f"{part}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def begun(data: Path, work: Path, **changes: Any) -> Run[Classification]:
    return Run(ClassificationOptions(data=data, work=work, **(SMALL | changes)), Classification)


def trained(data: Path, work: Path, **changes: Any) -> Run[Classification]:
    run = begun(data, work, **changes)
    run.train()
    return run


def test_a_stopped_run_goes_on_as_if_it_had_not_been_and_learns(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "straight")
    assert not trained(data, tmp_path / "run", stop_after=13).finished
    trained(data, tmp_path / "run")
    assert_same(state(tmp_path / "run"), state(tmp_path / "straight"))
    entries = curve(tmp_path / "run")
    assert entries == curve(tmp_path / "straight")
    assert entries[-1]["valid_loss"] < entries[0]["valid_loss"] - 0.02


def test_hidden_letters_are_as_many_as_the_options_say_and_only_in_training(data: Path, tmp_path: Path) -> None:
    loss = begun(data, tmp_path, hidden=0.25).task.loss
    seen: list[torch.Tensor] = []
    loss.get_submodule("model").register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    letters, labels = torch.full((2_000, LENGTH), 2), torch.zeros(2_000, dtype=torch.long)
    for training in (True, False):
        loss.train(training)(letters, labels)
    assert (seen[0] == 4).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert torch.equal(seen[1], letters)


def test_the_folder_says_what_the_training_said(data: Path, tmp_path: Path) -> None:
    run = trained(data, tmp_path / "run", rows_as_examples=True)
    scores = export(run, tmp_path / "small", "the command")
    checkpoint = load(tmp_path / "small")
    assert checkpoint.task is not None
    assert checkpoint.task.background == "N"
    letters, labels = run.task.valid
    texts = ["".join("ACGTN"[i] for i in row) for row in letters.tolist()]
    found = [classify(checkpoint, text).probabilities for text in texts]
    assert np.mean(np.argmax(found, 1) == labels.numpy()) == scores.accuracy
    assert checkpoint.examples[0] == f">valid-0 EI\n{texts[0]}"
    with (tmp_path / "small" / "examples.fa").open("rb") as file:
        assert [record.description for record in read_fasta(file)] == ["EI"] * 15 + ["IE"] * 15 + ["N"] * 15
    card = (tmp_path / "small" / "CARD.md").read_text()
    for part in ("the command", "licence are not recorded", "Matthews correlation", "temperature of", "30, 35, 40,"):
        assert part in card


def test_rows_stay_at_home_unless_they_may_be_examples(data: Path, tmp_path: Path) -> None:
    export(trained(data, tmp_path / "run", updates=2), tmp_path / "small", "the command")
    assert load(tmp_path / "small").examples == ()
    assert not (tmp_path / "small" / "examples.fa").exists()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("id\tletters\nx\tA\n", "columns id, sequence, label"),
        ("id\tsequence\tlabel\n", "at least one row"),
        ("id\tsequence\tlabel\nx\tACG\tN\ny\tACG\n", "no sequence or no label in line 3"),
        ("id\tsequence\tlabel\nx\tACG\tN\ny\tACG\tN\n", "needs two classes"),
        ("id\tsequence\tlabel\nx\tACG\tN\ny\tAC\tEI\n", "sequences of 2 letters, but the task has 3"),
        ("id\tsequence\tlabel\nx\tACG\tN\ny\tACT\tEI\n", "2 rows are left to train on, fewer than one batch of 16"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(data: Path, tmp_path: Path, table: str, says: str) -> None:
    (tmp_path / "train.tsv").write_text(table)
    (tmp_path / "valid.tsv").write_text("id\tsequence\tlabel\nx\tACG\tN\n")
    with pytest.raises(TrainingError, match=says):
        begun(tmp_path, tmp_path / "run")
    with pytest.raises(TrainingError, match="cannot be read"):
        begun(tmp_path / "missing", tmp_path / "run")


def test_labels_and_windows_have_to_fit(data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="a window of 21 letters does not fit"):
        begun(data, tmp_path / "run", widths="21")
    with pytest.raises(TrainingError, match="widths=3,x makes no run: choose"):
        begun(data, tmp_path / "run", widths="3,x")
    (tmp_path / "train.tsv").write_text((data / "train.tsv").read_text())
    (tmp_path / "valid.tsv").write_text(f"id\tsequence\tlabel\nx\t{'A' * LENGTH}\tQ\n")
    with pytest.raises(TrainingError, match="holds the label 'Q'"):
        begun(tmp_path, tmp_path / "run")


def test_the_command_trains_goes_on_from_a_checkpoint_and_writes(data: Path, tmp_path: Path) -> None:
    given = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    base = ["train", "classification", "--data", str(data), *given, "--updates", "2"]
    assert main([*base, "--out", str(tmp_path / "made"), "--work", str(tmp_path / "run")]) == 0
    made = load(tmp_path / "made")
    assert made.task is not None
    assert made.task.classes == ("EI", "IE", "N")
    assert "train classification" in (tmp_path / "made" / "CARD.md").read_text()
    on = ["--start", str(tmp_path / "made"), "--out", str(tmp_path / "next"), "--work", str(tmp_path / "more")]
    assert main([*base, *on]) == 0
    assert "went on from" in (tmp_path / "next" / "CARD.md").read_text()


def test_calibration_error_is_the_gap_between_confidence_and_accuracy() -> None:
    logits = torch.tensor([[0.0, math.log(4)]]).repeat(10, 1)  # confidence 0.8 in class 1
    assert calibration_errors(logits, torch.tensor([1] * 5 + [0] * 5))[0] == pytest.approx(0.3, abs=1e-6)
    assert calibration_errors(logits, torch.tensor([1] * 8 + [0] * 2))[0] == pytest.approx(0.0, abs=1e-6)


def test_temperature_finds_what_logits_were_multiplied_by() -> None:
    honest = torch.randn(20_000, 3, dtype=torch.float64) * 2
    labels = torch.multinomial(honest.softmax(1), 1)[:, 0]
    assert fitted_temperature(honest * 2.5, labels) == pytest.approx(2.5, rel=0.05)
    before, after = calibration_errors(honest * 2.5, labels)
    assert after < before / 4
    assert fitted_temperature(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])) == 100.0
