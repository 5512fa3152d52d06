"""Training of classifiers and of translators, on small data."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import toy
from tests.training.test_run import assert_same, curve, state
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.errors import InputError, TrainingError
from transformer.messages import Message
from transformer.runs.sequences.classify import classify
from transformer.sequences.fasta import read_fasta
from transformer.training.classification import Classification
from transformer.training.classifier_folder import calibration_errors, export, fitted_temperature
from transformer.training.options import ClassificationOptions, TranslationOptions
from transformer.training.run import Run
from transformer.training.translation import Pair, ParallelText, epoch_batches, pairs

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
        ("id\tletters\nx\tA\n", "columns id, sequence and label"),
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


TOKENIZER = toy.tokenizer()
HERE = Path()


def test_both_sides_are_read_line_by_line(tmp_path: Path) -> None:
    text = ParallelText.read(toy.write_corpus(tmp_path / "toy"), "val", ("en", "de"))
    assert list(zip(text.source, text.target, strict=True)) == toy.sentences(7, seed=7)
    assert len(text) == 7
    assert text.lines == text.source + text.target


def test_texts_that_do_not_match_are_refused(tmp_path: Path) -> None:
    folder = toy.write_corpus(tmp_path / "toy")
    with pytest.raises(InputError, match=r"val\.fr cannot be read"):
        ParallelText.read(folder, "val", ("en", "fr"))
    (folder / "val.de").write_text("eins\n")
    with pytest.raises(TrainingError, match=r"val\.en has 7 lines and val\.de has 1"):
        ParallelText.read(folder, "val", ("en", "de"))
    for language in ("en", "de"):
        (folder / f"val.{language}").write_text("")
    with pytest.raises(TrainingError, match=r"val\.en is empty"):
        ParallelText.read(folder, "val", ("en", "de"))


def test_pairs_carry_their_marks_and_useless_ones_are_left_out() -> None:
    text = ParallelText(["the dog", "", "the cat", "the " * 50], ["der Hund", "der Hund", "", "der"])
    (pair,) = pairs(text, TOKENIZER, max_tokens=40)
    assert pair == Pair(TOKENIZER.source_ids("the dog"), TOKENIZER.target_ids("der Hund"))
    assert pair.n_written == len(pair.target) - 1


def test_subword_dropout_cuts_anew_for_each_seed() -> None:
    text = ParallelText(["the woman sleeps."] * 5, ["der Vogel schläft."] * 5)
    usual = pairs(text, TOKENIZER, 40)
    first, again, other = (pairs(text, TOKENIZER, 40, 0.3, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first != usual
    assert {TOKENIZER.decode(pair.target) for pair in first} == {"der Vogel schläft."}


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1), st.integers(20, 90), st.integers(0, 9))
def test_an_epoch_holds_every_pair_once_in_batches_of_bounded_size(
    lengths: list[tuple[int, int]], tokens: int, epoch: int
) -> None:
    data = [Pair([i] * source, [i] * target) for i, (source, target) in enumerate(lengths)]
    batches = list(epoch_batches(data, tokens, seed=1, epoch=epoch))
    assert sorted(pair.source[0] for batch in batches for pair in batch) == list(range(len(data)))
    for batch in batches:
        width = max(max(len(pair.source), len(pair.target)) for pair in batch)
        assert width * len(batch) <= tokens
    assert batches == list(epoch_batches(data, tokens, seed=1, epoch=epoch))


def test_companions_change_from_epoch_to_epoch() -> None:
    data = [Pair([i] * 4, [i] * 5) for i in range(30)]
    first, second = (list(epoch_batches(data, 50, seed=1, epoch=epoch)) for epoch in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    "option",
    [
        dict(vocab_size=0), dict(d_model=0), dict(updates=0), dict(warmup=0), dict(batch_tokens=0), dict(average=0),
        dict(save_every=0), dict(validate_every=0), dict(threads=0), dict(stop_after=0), dict(max_tokens=2),
        dict(dropout=1.0), dict(label_smoothing=-0.1), dict(subword_dropout=1.5), dict(dropout=float("nan")),
        dict(clip=-1.0), dict(d_embedding=-1), dict(architecture="rnn"), dict(cooldown=1.1), dict(peak_rate=0.0),
        dict(peak_rate=float("inf")), dict(subword_epochs=-1), dict(positions="rotary"),
    ],
)  # fmt: skip
def test_options_that_make_no_run_are_refused(option: dict[str, Any]) -> None:
    name, value = next(iter(option.items()))
    with pytest.raises(TrainingError, match=f"{name}={value} makes no run: choose") as caught:
        TranslationOptions(data=HERE, work=HERE, **option)
    assert isinstance(caught.value.message, Message)
    assert f"{name}={value} 不能训练" in caught.value.message.in_language("zh")


def test_the_rate_rises_then_falls_with_the_root_and_at_last_to_zero() -> None:
    options = TranslationOptions(data=HERE, work=HERE, updates=1000, warmup=100, peak_rate=0.01, cooldown=0.25)
    assert options.rate(50) == pytest.approx(0.005)
    assert options.rate(100) == 0.01
    assert options.rate(400) == pytest.approx(0.005)
    assert options.rate(751) == pytest.approx(0.01 * (100 / 751) ** 0.5)
    assert options.rate(876) == pytest.approx(0.01 * (100 / 876) ** 0.5 / 2)
    assert 0 < options.rate(1000) < 0.0001
    rates = [options.rate(update) for update in range(1, 1001)]
    assert max(rates) == rates[99]


def test_what_decides_the_result_leaves_out_places_and_pace() -> None:
    options = toy.training_options(HERE / "a", HERE / "b", threads=3, stop_after=5, seed=7)
    assert "data" not in options.deciding()
    assert options.deciding() == toy.training_options(HERE, HERE, seed=7).deciding()
    assert options.changed()["seed"] == 7
    assert "dropout" not in options.changed()
    assert options.languages == ("en", "de")
