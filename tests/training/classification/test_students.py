"""What many classifiers answer, taught to one: the average, the rows made of two, the parts held out, the folder."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from tests.training.classification.test_run import SMALL, data, outcome_of, write_tables
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.errors import TrainingError
from transformer.models.kmer import KmerClassifier
from transformer.training.classification import presets, run
from transformer.training.classification.data import Labelled
from transformer.training.classification.export import export
from transformer.training.classification.outcome import Outcome
from transformer.training.classification.own import read_tables
from transformer.training.classification.plan import CNN, KMER, STUDENT, Distillation
from transformer.training.classification.run import Seeds, answers, averaging
from transformer.training.classification.teachers import read_start, read_teachers

__all__ = ["data"]  # the tables, which pytest hands to whoever names them

SEEDS = Seeds((1, 2), students=(5,), baselines=(1,))


def test_a_student_learns_what_its_teachers_answer_and_not_the_labels(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its teachers are all those that the plan names; here they say that everything is of the last class."""
    asked = []

    def stubborn(teachers):
        asked.append([type(one).__name__ for one in teachers])
        return lambda letters: F.one_hot(torch.full((len(letters),), 2), 3).float()

    monkeypatch.setattr(run, "averaging", stubborn)
    quick = replace(SMALL.hyperparameters, batch=4, epochs=1, average=0.5)
    plan = replace(SMALL, hyperparameters=quick, distillation=Distillation(epochs=1, crossed=0.5))
    outcome = outcome_of(data, plan, Seeds((1,), students=(5,)))
    assert asked == [["SmallCnn", "KmerClassifier"]]
    assert outcome.best.kind == STUDENT
    assert outcome.best.logits.argmax(1).tolist() == [2] * 45


def test_the_average_is_of_probabilities_and_leaves_no_gradient() -> None:
    teachers = [KmerClassifier(SMALL.config) for _ in range(3)]
    letters = torch.randint(4, (7, 20))
    taught = averaging(teachers)(letters)
    every = [torch.softmax(one(letters).detach(), 1) for one in teachers]  # in evaluation mode by now
    torch.testing.assert_close(taught, (every[0] + every[1] + every[2]) / 3)
    assert not taught.requires_grad
    assert not any(one.training for one in teachers)


def test_joined_rows_begin_as_one_training_row_and_end_as_another() -> None:
    """Row i of the batch is all i; the training rows are all 4: so each place says whence it is."""
    plan = replace(SMALL, hyperparameters=replace(SMALL.hyperparameters, crossed=0.5, unknown=0.0))
    letters, labels = torch.arange(4)[:, None].expand(4, 19).repeat(500, 1), torch.zeros(2_000, dtype=torch.long)
    others = Labelled(("a", "b", "c"), torch.full((3, 19), 4), torch.zeros(3, dtype=torch.long))
    torch.manual_seed(1)
    varied = run._varied(letters, labels, others, letters[:1], plan)
    foreign = varied == 4
    assert bool((varied[~foreign] == letters[~foreign]).all())
    assert bool((foreign.int().diff(dim=1) >= 0).all())  # once it goes on as another, to the end
    assert not bool(foreign[:, 0].any())
    joined = foreign.any(1)
    assert joined.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert set(foreign[joined].sum(1).tolist()) == set(range(1, 19))


def test_each_seed_holds_another_part_out_where_one_is_taught(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[tuple[str, int], tuple[str, ...]] = {}
    plain = run._train_one

    def noted(model, kind, seed, plan, rows, teach):
        parts[kind, seed] = rows[1].ids
        return plain(model, kind, seed, plan, rows, teach)

    monkeypatch.setattr(run, "_train_one", noted)
    outcome_of(data, SMALL, SEEDS)
    assert parts[KMER, 1] == parts[CNN, 1] != parts[KMER, 2] != parts[STUDENT, 5]
    parts.clear()
    run.train_all(SMALL, outcome_tables(data), data / "alone", Seeds((1, 2)))
    assert len(set(parts.values())) == 1


def outcome_tables(data: Path) -> tuple[Labelled, Labelled]:
    return read_tables(SMALL, data / "train.tsv", data / "valid.tsv")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables, and the trainings of them in `work`."""
    folder = tmp_path_factory.mktemp("kept")
    write_tables(folder)
    outcome_of(folder, SMALL, SEEDS)
    return folder


@pytest.fixture
def taught(data: Path, kept: Path) -> Outcome:
    """The outcome of these trainings, beside tables of this test's own."""
    shutil.copytree(kept / "work", data / "work")
    return outcome_of(data, SMALL, SEEDS)


def test_the_folder_is_the_students_and_the_card_tells_of_all(taught: Outcome, data: Path) -> None:
    export(replace(taught, plan=replace(SMALL, tried="Nothing else.")), data / "small", "the command")
    ours = load(data / "small").model
    student = next(one for one in taught.trained if one.kind == STUDENT)
    torch.testing.assert_close(
        dict(ours.named_parameters())["hidden.bias"], student.weights["hidden.bias"], atol=1e-3, rtol=1e-3
    )
    card = (data / "small" / "CARD.md").read_text()
    for part in (
        "distilled k-mer classifier, seed 5", "1 of “two-layer CNN” and 2 of “k-mer classifier”", "Nothing else.",
        "average of the teachers", "50% of the rows joined from two", "two-layer CNN: 1; k-mer classifier: 1, 2",
    ):  # fmt: skip
        assert part in card
    average = taught.average
    assert average is not None
    assert average.n_parameters == sum(one.n_parameters for one in taught.teachers)
    expected = sum(F.softmax(one.logits, 1) for one in taught.teachers) / 3
    torch.testing.assert_close(average.logits.exp(), expected)


def test_a_checkpoint_teaches_too_unless_it_decides_something_else(taught: Outcome, data: Path) -> None:
    folder = data / "teacher"
    export(taught, folder, "the command")
    given = read_teachers(SMALL, [folder, folder])
    assert [name for name, _ in given] == ["teacher", "teacher"]
    again = run.train_all(SMALL, outcome_tables(data), data / "with", SEEDS, given)
    assert [one.kind for one in again.teachers] == [CNN, KMER, KMER, "teacher", "teacher"]
    assert not torch.equal(again.best.logits, taught.best.logits)
    assert torch.equal(again.of(KMER)[1].logits, taught.of(KMER)[1].logits)
    with pytest.raises(
        TrainingError, match="is of no use for core-promoters: it has other letters, classes or lengths"
    ):
        read_teachers(presets.CORE_PROMOTERS, [folder])


def test_what_was_kept_of_another_training_is_no_part_of_this_one(taught: Outcome, data: Path) -> None:
    wider = replace(SMALL, config=replace(SMALL.config, widths=(2, 4)))
    with pytest.raises(TrainingError, match="of a training with other options or other rows"):
        outcome_of(data, wider, SEEDS)
    with pytest.raises(TrainingError, match="other options or other rows"):
        outcome_of(data, SMALL, Seeds((1, 2)))  # all of these would hold one part out
    rows = (data / "train.tsv").read_text().splitlines()
    (data / "train.tsv").write_text("\n".join(rows[:-1]) + "\n")
    with pytest.raises(TrainingError, match="other options or other rows"):
        outcome_of(data, SMALL, SEEDS)
    with pytest.raises(TrainingError, match="says nothing of students"):
        outcome_of(data, replace(SMALL, distillation=None), SEEDS)


def test_training_goes_on_from_a_checkpoint_of_its_sizes(taught: Outcome, data: Path) -> None:
    """Near nothing is learned at such a rate: what comes out is the start, which fresh weights are far from."""
    export(taught, data / "begun", "the command")
    start = read_start(SMALL, data / "begun")
    still = replace(SMALL, hyperparameters=replace(SMALL.hyperparameters, epochs=1), start_rate=1e-9)
    begun = run.train_all(still, outcome_tables(data), data / "further", Seeds((1,)), start=start)
    expected = answers(start, begun.valid)
    torch.testing.assert_close(begun.best.logits, expected, atol=1e-4, rtol=0)
    with pytest.raises(TrainingError, match="cannot be gone on from: its sizes are not those of the plan"):
        read_start(replace(SMALL, config=replace(SMALL.config, d_ff=9)), data / "begun")
    with pytest.raises(TrainingError, match="other options or other rows"):
        run.train_all(still, outcome_tables(data), data / "further", Seeds((1,)))


OWN = ["--seeds", "1", "--students", "2", "--epochs", "1", "--student-epochs", "1", "--batch", "16", "--heads", "2"]


def test_a_table_of_ones_own_becomes_a_checkpoint(data: Path) -> None:
    """Classes are its labels; without validation rows a fifth is taken; the card has the command."""
    out = data / "own"
    command = ["train", "classification", "--train", str(data / "train.tsv"), "--out", str(out), *OWN]
    sizes = ["--widths", "2", "5", "--d-model", "10", "--d-ff", "6", "--background", "N", "--title", "Mine & yours"]
    assert main([*command, *sizes, "--work", str(data / "work")]) == 0
    found = load(out)
    model = found.model_as(KmerClassifier)
    assert (model.config.widths, model.config.d_model, model.config.n_heads, model.config.d_ff) == ((2, 5), 10, 2, 6)
    assert found.task is not None
    assert (found.task.classes, found.task.length, found.task.background) == (("EI", "IE", "N"), 20, "N")
    card = (out / "CARD.md").read_text()
    for part in (
        "# Mine & yours",
        "--widths 2 5",
        "--title 'Mine & yours'",
        "--train path/to/train.tsv",
        "18 validation rows",
    ):
        assert part in card
    rows = {line.split("\t")[1] for line in (data / "train.tsv").read_text().splitlines()[1:]}
    assert not rows & set((out / "examples.fa").read_text().split())  # may not be passed on unless it is said
    kept = json.loads((data / "work" / "distilled-k-mer-classifier-2.json").read_text())
    assert (kept["seed"], kept["epochs"]) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "say what to train on"),
        (["splice-junctions"], "say what to train on"),
        (["splice-junctions", "--data", "x", "--train", "y"], "say what to train on"),
        (["--train", "train.tsv", "--widths", "21"], "a window of 21 letters does not fit into sequences of 20"),
        (["--train", "train.tsv", "--rate", "0"], "rate=0.0 makes no run: choose a positive rate"),
        (["--train", "train.tsv", "--epochs", "0"], "epochs=0 makes no run: choose at least 1"),
        (["--train", "train.tsv", "--student-epochs", "0", "--students", "4"], "epochs=0 makes no run"),
        (["--train", "train.tsv", "--hidden", "1"], "unknown=1.0 makes no run: choose a probability"),
        (["--train", "train.tsv", "--crossed", "2", "--students", "4"], "crossed=2.0 makes no run"),
        (["--train", "train.tsv", "--background", "none"], "none"),
        (["--train", "one.tsv"], "every row of .* has the label 'N'"),
        (["--train", "cut.tsv"], "no sequence or no label in line 3"),
        (["--train", "train.tsv", "--valid", "long.tsv"], "sequences of 21 letters, but the task has 20"),
        (["--train", "bytes.tsv"], "cannot be read"),
        (["--train", "train.tsv", "--device", "nowhere"], "there is no device nowhere here"),
    ],
)
def test_what_makes_no_run_is_refused_in_a_sentence(
    data: Path, arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data)
    head, row = "id\tsequence\tlabel\n", "a\t" + "ACGTA" * 4 + "\tN\n"
    (data / "one.tsv").write_text(head + row)
    (data / "cut.tsv").write_text(head + row + "b\tACG\n")
    (data / "long.tsv").write_text(head + row.replace("ACGTA\t", "ACGTAA\t"))
    (data / "bytes.tsv").write_bytes(b"id\tsequence\tlabel\n\xff\xfe\n")
    assert main(["train", "classification", *arguments, "--out", "made", "--seeds", "1"]) == 2
    error = capsys.readouterr().err
    assert re.search(says, error), error
    assert not (data / "made").exists()
