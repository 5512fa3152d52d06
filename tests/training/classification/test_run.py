"""A sequence classifier from a table to a folder: small, seeded, resumed, and read back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.errors import TrainingError
from transformer.models.kmer import KmerClassifier
from transformer.runs.sequences.classify import classify
from transformer.sequences.fasta import read_fasta
from transformer.training.classification import presets, run
from transformer.training.classification.baselines import PlacedKmers, PositionLogistic, SmallCnn
from transformer.training.classification.data import Labelled, Substitution
from transformer.training.classification.export import export, made_up
from transformer.training.classification.outcome import Outcome
from transformer.training.classification.own import read_tables
from transformer.training.classification.plan import (
    CNN,
    KMER,
    LOGISTIC,
    PLACED,
    Aim,
    Distillation,
    Hyperparameters,
    Plan,
)
from transformer.training.classification.presets import CORE_PROMOTERS, SPLICE_JUNCTIONS
from transformer.training.classification.run import Seeds, train_all

LENGTH = 20
SMALL = replace(
    SPLICE_JUNCTIONS,
    name="small",
    task=replace(SPLICE_JUNCTIONS.task, length=LENGTH, landmarks=()),
    config=replace(SPLICE_JUNCTIONS.config, d_model=8, n_heads=2, d_ff=8, n_layers=1, widths=(2, 3)),
    hyperparameters=Hyperparameters(epochs=3, batch=16, rate=2e-2, warmup=5, average=0.9),
    hold_out=0.2,
    distillation=Distillation(epochs=2, crossed=0.5),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two tables whose classes are told apart by two letters in the middle."""
    write_tables(tmp_path)
    return tmp_path


def write_tables(folder: Path) -> None:
    """`train.tsv` and `valid.tsv`, the same each time."""
    generator = np.random.default_rng(3)
    for part, count in (("train", 90), ("valid", 45)):
        rows = ["id\tsequence\tlabel"]
        for i in range(count):
            label = ("EI", "IE", "N")[i % 3]
            letters = generator.choice(list("ACGT"), LENGTH)
            letters[9:11] = list({"EI": "GT", "IE": "AG", "N": "CC"}[label])
            rows.append(f"{part}-{i}\t{''.join(letters)}\t{label}")
        (folder / f"{part}.tsv").write_text("\n".join(rows) + "\n")


TWO = Seeds((1, 2))


def outcome_of(data: Path, plan: Plan = SMALL, seeds: Seeds = TWO) -> Outcome:
    return train_all(plan, read_tables(plan, data / "train.tsv", data / "valid.tsv"), data / "work", seeds)


def test_every_kind_and_seed_is_trained_and_kept(data: Path) -> None:
    outcome = outcome_of(data)
    kinds = (LOGISTIC, PLACED, CNN, KMER)
    assert [(one.kind, one.seed) for one in outcome.trained] == [(kind, seed) for kind in kinds for seed in (1, 2)]
    assert outcome.sizes == (72, 18, 45)
    assert outcome.best.held_out_loss == min(one.held_out_loss for one in outcome.of(KMER))
    assert all(len(one.logits) == 45 and one.seconds > 0 for one in outcome.trained)


def test_what_was_trained_is_not_trained_again_and_a_missing_one_comes_out_the_same(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = outcome_of(data)
    (data / "work" / "k-mer-classifier-2.json").unlink()
    again = outcome_of(data)
    for one, other in zip(first.trained, again.trained, strict=True):
        assert torch.equal(one.logits, other.logits)
    monkeypatch.setattr(run, "_train_one", None)  # would fail if it were called
    assert torch.equal(outcome_of(data).best.logits, first.best.logits)


@pytest.mark.parametrize("batch", [73, 90, 4_000])
def test_fewer_rows_than_a_batch_are_refused(data: Path, batch: int) -> None:
    """72 of the 90 rows are left to train on: no update would be done, and an untrained net shipped."""
    plan = replace(SMALL, hyperparameters=replace(SMALL.hyperparameters, batch=batch))
    with pytest.raises(TrainingError, match=f"72 rows are left to train on, fewer than one batch of {batch}"):
        outcome_of(data, plan)
    assert not (data / "work").exists()


def test_a_single_batch_is_enough(data: Path) -> None:
    plan = replace(SMALL, hyperparameters=replace(SMALL.hyperparameters, batch=72, epochs=1))
    assert len(outcome_of(data, plan).trained) == 8


def test_rows_that_are_all_alike_cannot_be_held_out(data: Path) -> None:
    with pytest.raises(TrainingError, match="none of the 90 rows can be held out, as all share 1 letters in a row"):
        outcome_of(data, replace(SMALL, family_width=1))


def test_the_command_refuses_too_few_rows(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(presets.PRESETS, "splice-junctions", SMALL)
    rows = (data / "train.tsv").read_text().splitlines()
    (data / "train.tsv").write_text("\n".join(rows[:16]) + "\n")
    arguments = ["train", "classification", "splice-junctions", "--data", str(data), "--out", str(data / "made")]
    assert main([*arguments, "--work", str(data / "work")]) == 2
    assert "fewer than one batch of 16" in capsys.readouterr().err
    assert not (data / "made").exists()


def test_the_folder_says_what_the_training_said(data: Path) -> None:
    outcome = outcome_of(data)
    folder = data / "small"
    export(outcome, folder, "the command")
    checkpoint = load(folder)
    assert checkpoint.task is not None
    assert checkpoint.task.temperature == pytest.approx(outcome.temperature, rel=1e-3)
    text = "".join("ACGTN"[i] for i in outcome.valid.letters[7].tolist())
    expected = (outcome.best.logits[7].double() / outcome.temperature).softmax(0)
    np.testing.assert_allclose(classify(checkpoint, text).probabilities, expected, atol=5e-3)  # half precision on disk
    assert checkpoint.examples[0] == f">valid-0 EI\n{''.join('ACGTN'[i] for i in outcome.valid.letters[0].tolist())}"
    with (folder / "examples.fa").open("rb") as file:
        described = [record.description for record in read_fasta(file)]
    assert described == ["EI"] * 15 + ["IE"] * 15 + ["N"] * 15
    card = (folder / "CARD.md").read_text()
    for part in ("the command", "CC BY 4.0", "two-layer CNN", "Matthews correlation", "temperature of", "± "):
        assert part in card


@pytest.mark.parametrize(("value", "says"), [(0.0, "files reach it"), (1.01, "files **do not reach** it")])
def test_the_card_says_plainly_whether_the_aim_was_reached(data: Path, value: float, says: str) -> None:
    outcome = replace(outcome_of(data), plan=replace(SMALL, aim=Aim("mcc", value, "an example")))
    export(outcome, data / "small", "the command")
    card = (data / "small" / "CARD.md").read_text()
    assert f"Matthews correlation of at least {value:g} (an example)" in card
    assert says in card


def test_data_that_may_not_be_passed_on_is_not(data: Path) -> None:
    outcome = outcome_of(data, replace(SMALL, may_pass_on=False))
    export(outcome, data / "small", "the command")
    shipped = (data / "small" / "examples.fa").read_text()
    given = {"".join("ACGTN"[i] for i in row) for row in outcome.valid.letters.tolist()}
    assert not given & set(shipped.split())
    assert shipped.count(">made-up-IE-") == 60


def test_made_up_letters_follow_what_they_followed() -> None:
    period = torch.arange(3).repeat(20, 9)  # 0 1 2 0 1 2 ...
    made = made_up(period, 50, 4)
    steps = (made[:, 1:] - made[:, :-1]) % 3
    assert (steps == 1).float().mean().item() > 0.9
    assert torch.equal(made, made_up(period, 50, 4))


def test_hidden_letters_and_fresh_negatives_are_as_many_as_the_plan_says() -> None:
    scheme = Substitution(block=5, start=0, total=4, replaced=4)
    chosen = replace(SMALL.hyperparameters, unknown=0.25, fresh=0.5, positive=1, substitution=scheme)
    plan = replace(SMALL, hyperparameters=chosen)
    letters, labels = torch.full((4_000, LENGTH), 2), torch.arange(4_000) % 2
    varied = run._varied(letters, labels, Labelled((), letters, labels), letters[:1], plan)
    assert (varied == 4).float().mean().item() == pytest.approx(0.25, abs=0.02)
    known = varied != 4
    changed = ((varied != 2) & known).any(1)
    assert not changed[labels == 1].any()
    assert changed[labels == 0].float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert bool((letters == 2).all())


def test_the_rate_rises_and_falls_to_nothing() -> None:
    chosen = Hyperparameters(epochs=1, batch=1, rate=0.1, warmup=10)
    rates = [run._rate(chosen, update, 100) for update in range(1, 101)]
    assert rates.index(max(rates)) == 9
    assert rates[-1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("build", [PositionLogistic, PlacedKmers, SmallCnn])
def test_baselines_answer_for_each_class(build: type[torch.nn.Module]) -> None:
    model = build(5, 17, 3).eval()
    assert model(torch.randint(5, (7, 17))).shape == (7, 3)


def test_a_placed_kmer_votes_by_its_place_and_by_what_is_near() -> None:
    model = PlacedKmers(3, 7, 2, longest=2, near=1.7).double()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for votes in model.parameters():
            votes.copy_(torch.randn(votes.shape, generator=generator, dtype=votes.dtype))
    letters = torch.randint(3, (5, 7), generator=generator)
    scale = max(sum(np.exp(-2 * ((p - q) / 1.7) ** 2) for q in range(7)) for p in range(7)) ** 0.5
    for row, found in zip(letters.tolist(), model(letters).detach(), strict=True):
        expected = model.bias.detach().clone()
        for k in (1, 2):
            for place in range(7 - k + 1):
                kmer = sum(letter * 3**i for i, letter in enumerate(row[place : place + k]))
                expected += model.here[k - 1][place, kmer].detach()
                for other in range(7 - k + 1):
                    near = np.exp(-(((place - other) / 1.7) ** 2)) / scale
                    expected += near * model.around[k - 1][other, kmer].detach()
        np.testing.assert_allclose(found, expected, atol=1e-5)  # closeness is single precision


def test_plans_keep_their_promises() -> None:
    assert sum(p.numel() for p in KmerClassifier(CORE_PROMOTERS.config).parameters()) <= 300_000
    for plan in presets.PRESETS.values():
        assert plan.config.n_classes == len(plan.task.classes)
        assert plan.config.vocab == len(plan.task.alphabet)


def test_the_command_trains_and_writes(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(presets.PRESETS, "splice-junctions", SMALL)
    out = data / "made"
    arguments = ["train", "classification", "splice-junctions", "--data", str(data), "--out", str(out)]
    assert main([*arguments, "--work", str(data / "work"), "--seeds", "4", "--epochs", "1"]) == 0
    assert load(out).task.classes == ("EI", "IE", "N")
    assert "--seeds 4" in (out / "CARD.md").read_text()
    assert main(["train", "classification", "splice-junctions", "--data", str(data / "no"), "--out", str(out)]) == 2
