"""Training: it learns, and goes on after a stop as if there had been none; options, texts and tables are refused."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor, nn

from tests import toy
from tests.full_disk import at_most
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.errors import CheckpointError, InputError, TrainingError
from transformer.messages import Message
from transformer.nn.common import pad
from transformer.runs.measures.head_agreement import head_agreement, known_agreement
from transformer.runs.sequences.classify import classify
from transformer.sequences.fasta import read_fasta
from transformer.training import classification
from transformer.training import run as loop
from transformer.training.classification import ClassificationTask, Scores, fitted_temperature
from transformer.training.run import ClassificationOptions, NextTokenLoss, TrainingRun, TranslationOptions
from transformer.training.translation import TokenPair, TranslationTask, epoch_batches, export, new_model, pairs

ROOT = Path(__file__).resolve().parents[2]
RECURRENT: dict[str, Any] = dict(d_model=7, d_embedding=5, clip=1.0, history=False, peak_rate=0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write_corpus(tmp_path_factory.mktemp("corpus") / "toy")


def begun(data: Path, work: Path, **changes: Any) -> TrainingRun[TranslationTask]:
    return TrainingRun(toy.training_options(data, work, **changes), TranslationTask)


def trained(data: Path, work: Path, **changes: Any) -> TrainingRun[TranslationTask]:
    run = begun(data, work, **changes)
    run.train()
    return run


def plain(value: Any) -> Any:
    """What compares to the bit, all the way down; seconds, which may differ, are left out."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name != "seconds"}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return (value.dtype, value.tolist()) if isinstance(value, Tensor) else (type(value), value)


def state(work: Path) -> dict[str, Any]:
    return torch.load(work / "state.pt", weights_only=True)


def curve(work: Path) -> list[dict[str, Any]]:
    return state(work)["progress"]["curve"]


def assert_same_run(work: Path, straight: Path) -> None:
    assert plain(state(work)) == plain(state(straight))
    for path in (straight / "weights").iterdir():
        assert plain(load_file(path)) == plain(load_file(work / "weights" / path.name))


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    work = tmp_path_factory.mktemp("straight") / "run"
    trained(data, work)
    return work


def test_a_stopped_run_goes_on_as_if_it_had_not_been(data: Path, straight: Path, tmp_path: Path) -> None:
    """Five updates lie inside the second epoch, between two validations."""
    work = tmp_path / "run"
    stopped = trained(data, work, stop_after=5)
    assert not stopped.finished
    assert (stopped.progress.update, stopped.progress.batch > 0) == (5, True)
    assert trained(data, work).finished
    assert_same_run(work, straight)


@pytest.mark.parametrize("full", ["weights/000010.safetensors", "state.pt"])
def test_a_disk_that_is_full_is_one_sentence_and_what_was_saved_goes_on(
    data: Path, straight: Path, tmp_path: Path, full: str
) -> None:
    """The system refuses to write a byte past a file's size, as it does on a full disk; the state is the larger one."""
    work = tmp_path / "run"
    trained(data, work, stop_after=9)
    needed = (straight / full).stat().st_size
    with at_most(needed - 1), pytest.raises(TrainingError, match=f"{full} cannot be written .*File too large.*make"):
        trained(data, work)
    assert state(work)["progress"]["update"] == 9
    assert not list(work.rglob("*.new"))
    trained(data, work)
    assert_same_run(work, straight)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests import toy
from transformer.training.run import TrainingRun
from transformer.training.translation import TranslationTask

run = TrainingRun(toy.training_options(Path(sys.argv[1]), Path(sys.argv[2])), TranslationTask)
update = run._update

def dies(batch):
    if run.progress.update == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return update(batch)

run._update = dies
run.train()
"""
"""A run that is killed before the update after its third argument."""


def test_a_run_that_is_killed_and_goes_on_in_another_process_is_the_same(
    data: Path, straight: Path, tmp_path: Path
) -> None:
    """Every process has other hashes."""
    work = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, str(data), str(work), "6"]
    variables = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}  # not that of this process
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert trained(data, work).finished
    assert state(work)["progress"]["epoch"] > 0
    assert_same_run(work, straight)


def test_a_finished_run_has_nothing_left_to_do_and_its_pace_may_change(data: Path, straight: Path) -> None:
    before = plain(state(straight))
    assert trained(data, straight, threads=1, stop_after=3).finished
    assert plain(state(straight)) == before


def test_what_a_run_leaves_knows_its_heads_from_the_start(data: Path, straight: Path, tmp_path: Path) -> None:
    examples = tuple(source for source, _ in toy.sentences(3, seed=5))
    (data / "examples.txt").write_text("\n".join(examples) + "\n", encoding="utf-8")
    (data / "DATA.md").write_text("Made up for a test; free.\n", encoding="utf-8")
    export(trained(data, straight), tmp_path / "mine", "the command")
    made = load(tmp_path / "mine")
    assert made.examples == examples
    assert "Made up for a test; free." in (tmp_path / "mine" / "CARD.md").read_text(encoding="utf-8")
    found, again = known_agreement(made), head_agreement(made, examples)
    assert found is not None
    assert (found.sentences, found.rows) == (3, again.rows)
    assert [(one.site, one.head) for one in found.heads] == [(one.site, one.head) for one in again.heads]


def test_it_learns(straight: Path) -> None:
    entries = curve(straight)
    assert [entry["update"] for entry in entries] == [4, 8, 12]
    assert entries[-1]["valid_loss"] < entries[0]["valid_loss"] - 0.05
    assert entries[-1]["train_loss"] < entries[0]["train_loss"]
    assert entries[1]["rate"] == pytest.approx(0.005 * 0.5**0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(d_model=8), "d_model=8, but .* holds a run with d_model=6: resume it with 6, or choose another"),
        (dict(seed=2), "seed=2, but .* holds a run with seed=1"),
        (dict(updates=13), "updates=13, but .* holds a run with updates=12"),
    ],
)
def test_other_options_do_not_resume_a_run(data: Path, straight: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        begun(data, straight, **changes)


def test_a_broken_state_is_refused(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", stop_after=1)
    (tmp_path / "run" / "state.pt").write_bytes(b"half a file")
    with pytest.raises(TrainingError, match=r"state\.pt cannot be resumed: delete the folder"):
        begun(data, tmp_path / "run")


def test_without_a_history_its_updates_are_not_measured(data: Path, tmp_path: Path) -> None:
    longer = dict(RECURRENT, updates=51, validate_every=40, save_every=40)
    run = trained(data, tmp_path / "run", architecture="rnn-additive", **longer)
    assert [entry["update"] for entry in curve(tmp_path / "run")] == [40, 51]
    assert run.saved == [40, 51]


def test_a_run_takes_over_a_tokenizer(data: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.model"
    given.write_bytes(toy.tokenizer().model)
    trained(data, tmp_path / "run", tokenizer=given, stop_after=1)
    assert (tmp_path / "run" / "tokenizer.model").read_bytes() == given.read_bytes()
    with pytest.raises(TrainingError, match=r"tokenizer=None, but .* holds a run with tokenizer=.*given\.model"):
        begun(data, tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"absent\.model"):
        begun(data, tmp_path / "new", tokenizer=tmp_path / "absent.model")


def test_the_newest_weights_are_averaged_and_the_snapshots_kept(data: Path, tmp_path: Path) -> None:
    """Neither snapshots nor what is too old belong to the mean; 50 is a snapshot and no regular update."""
    assert [update for update in range(7000) if loop.is_snapshot(update)] == [50, 100, 200, 400, 800, 1600, 3200, 6400]
    run = trained(data, tmp_path / "run", updates=65, save_every=20, validate_every=40, average=3)
    assert run.saved == [40, 50, 60, 65]
    mean, chosen = run.averaged()
    assert chosen == [40, 60, 65]
    for name, weights in mean.items():
        expected = sum(run.weights(update)[name].double() for update in chosen) / 3
        torch.testing.assert_close(weights, expected.float(), rtol=0, atol=1e-7)


def test_a_long_gradient_is_shortened(data: Path, tmp_path: Path) -> None:
    lengths = {}
    for clip in (0.0, 0.01):
        weights = trained(data, tmp_path / str(clip), clip=clip, updates=1).task.model.parameters()
        lengths[clip] = nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None]).item()
    assert lengths[0.0] > 0.1
    assert lengths[0.01] == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("architecture", loop.ARCHITECTURES)
def test_the_loss_counts_each_real_token_once(architecture: str) -> None:
    """Padding adds nothing, and a row without real tokens gives zero and no gradient."""
    words = toy.tokenizer()
    model = new_model(toy.training_options(ROOT, ROOT, architecture=architecture), words).eval()
    learner = NextTokenLoss(model, label_smoothing=0.1)
    rows = [(words.source_ids(s), words.target_ids(t)) for s, t in toy.sentences(5, seed=1)]
    together = learner(pad([s for s, _ in rows], words.pad_id), pad([t for _, t in rows], words.pad_id))
    alone = sum(learner(torch.tensor([s]), torch.tensor([t])) for s, t in rows)
    torch.testing.assert_close(together, alone)
    nothing = learner(torch.tensor([[words.eos_id]]), torch.tensor([[words.bos_id, words.pad_id]]))
    assert nothing.item() == 0
    nothing.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_sigterm_stops_after_the_update_in_hand(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is asked to end while it works at its third update."""
    work, before = tmp_path / "run", signal.getsignal(signal.SIGTERM)
    options = toy.training_options(data, work, updates=100_000, save_every=1, validate_every=50_000)
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.unusual().items()]
    descend = loop.descend

    def asked_to_end(*given: Any, seed: tuple[int, int], **options: Any) -> float:
        if seed[1] == 3:
            signal.raise_signal(signal.SIGTERM)
        return descend(*given, seed=seed, **options)

    monkeypatch.setattr(loop, "descend", asked_to_end)
    command = ["train", "translation", f"--data={data}", f"--work={work}", f"--out={tmp_path / 'out'}", *arguments]
    assert main(command) == 128 + signal.SIGTERM
    assert "stopped after update 3 of 100000: the same command goes on" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    assert not (tmp_path / "out").exists()
    assert TrainingRun(options, TranslationTask).progress.update == 3


LENGTH = 20
SMALL: dict[str, Any] = dict(
    d_model=8, n_heads=2, d_ff=8, widths="2,3", batch=16, updates=40, warmup=5, peak_rate=0.03, save_every=5,
    validate_every=10, average=3, background="N",
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def classifying(tables: Path, work: Path, **changes: Any) -> TrainingRun[ClassificationTask]:
    return TrainingRun(ClassificationOptions.of(data=tables, work=work, **(SMALL | changes)), ClassificationTask)


@pytest.mark.parametrize("kind", ["classifier", *loop.ARCHITECTURES[1:]])
def test_the_same_loop_makes_other_models(data: Path, tables: Path, tmp_path: Path, kind: str) -> None:
    def run(work: str, **changes: Any) -> TrainingRun[Any]:
        if kind != "classifier":
            return trained(data, tmp_path / work, architecture=kind, **RECURRENT, **changes)
        made = classifying(tables, tmp_path / work, **changes)
        made.train()
        return made

    straight = run("straight")
    assert kind == "classifier" or straight.task.model.config.attention.kind == kind.removeprefix("rnn-")
    assert not run("run", stop_after=5).finished
    assert run("run").finished
    assert plain(state(tmp_path / "run")) == plain(state(tmp_path / "straight"))
    entries = curve(tmp_path / "run")
    assert entries[-1]["valid_loss"] < entries[0]["valid_loss"] - 0.02


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
    scores = classification.export(run, tmp_path / "small", "the command")
    checkpoint = load(tmp_path / "small")
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


@pytest.mark.parametrize(
    ("train", "options", "says"),
    [
        (None, {}, "cannot be read"),
        ("id\tletters\nx\tA", {}, "columns id, sequence and label"),
        ("", {}, "at least one row"),
        ("x\tACG\tN\ny\tACG", {}, "no sequence or no label in line 3"),
        ("x\tACG\tN\ny\tACG\tN", {}, "needs two classes"),
        ("x\tACG\tN\ny\tAC\tEI", {}, "sequences of 2 letters, but the task has 3"),
        ("x\tACG\tM\ny\tACT\tEI", {}, "holds the label 'N'"),
        ("x\tACG\tN\ny\tACT\tEI", {}, "2 rows are left to train on, fewer than one batch of 16"),
        ("x\tACG\tN\ny\tACT\tEI", dict(batch=2, widths="2,4"), "a window of 4 letters does not fit"),
        ("x\tACG\tN\ny\tACT\tEI", dict(widths="3,x"), "widths=3,x makes no run: choose"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    tmp_path: Path, train: str | None, options: dict[str, Any], says: str
) -> None:
    for name, rows in (("train", train), ("valid", "x\tACG\tN")):
        if rows is not None:
            head = "" if rows.startswith("id") else "id\tsequence\tlabel\n"
            (tmp_path / f"{name}.tsv").write_text(f"{head}{rows}\n")
    with pytest.raises(TrainingError, match=says):
        classifying(tmp_path, tmp_path / "run", **options, background="")


def test_the_command_trains_and_writes(tables: Path, tmp_path: Path) -> None:
    """Rows stay at home, since nobody said that they may be examples."""
    given = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    base = ["train", "classification", "--data", str(tables), *given, "--updates", "2"]
    assert main([*base, "--out", str(tmp_path / "made"), "--work", str(tmp_path / "run")]) == 0
    made = load(tmp_path / "made")
    assert made.task.classes == ("EI", "IE", "N")
    assert made.examples == ()
    assert not (tmp_path / "made" / "examples.fa").exists()
    assert "train classification" in (tmp_path / "made" / "CARD.md").read_text()


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


TOKENIZER = toy.tokenizer()
HERE = Path()


def test_texts_that_do_not_match_are_refused(tmp_path: Path) -> None:
    folder = toy.write_corpus(tmp_path / "toy")
    with pytest.raises(TrainingError, match="max_tokens=4 leaves no pair to learn from"):
        begun(folder, tmp_path / "run", max_tokens=4)
    with pytest.raises(InputError, match=r"train\.fr cannot be read"):
        begun(folder, tmp_path / "run", target_language="fr")
    (folder / "val.de").write_text("eins\n")
    with pytest.raises(InputError, match=r"val\.en has 7 lines"):
        begun(folder, tmp_path / "run")
    for language in ("en", "de"):
        (folder / f"val.{language}").write_text("")
    with pytest.raises(InputError, match=r"val\.en is empty"):
        begun(folder, tmp_path / "run")


def test_pairs_carry_their_marks_and_useless_ones_are_left_out() -> None:
    sources, targets = ["the dog", "", "the cat", "the " * 50], ["der Hund", "der Hund", "", "der"]
    (pair,) = pairs(sources, targets, TOKENIZER, max_tokens=40)
    assert pair == TokenPair(TOKENIZER.source_ids("the dog"), TOKENIZER.target_ids("der Hund"))


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1), st.integers(20, 90), st.integers(0, 9))
def test_an_epoch_holds_every_pair_once_in_batches_of_bounded_size(
    lengths: list[tuple[int, int]], tokens: int, epoch: int
) -> None:
    data = [TokenPair([i] * source, [i] * target) for i, (source, target) in enumerate(lengths)]
    batches = list(epoch_batches(data, tokens, seed=1, epoch=epoch))
    assert sorted(pair.source[0] for batch in batches for pair in batch) == list(range(len(data)))
    for batch in batches:
        width = max(max(len(pair.source), len(pair.target)) for pair in batch)
        assert width * len(batch) <= tokens
    assert batches == list(epoch_batches(data, tokens, seed=1, epoch=epoch))
    alike = [TokenPair([i] * 4, [i] * 5) for i in range(30)]  # whose companions change from epoch to epoch
    assert list(epoch_batches(alike, 50, 1, epoch)) != list(epoch_batches(alike, 50, 1, epoch + 1))


@pytest.mark.parametrize(
    "option",
    [
        *({name: 0} for name in ("vocab_size", "d_model", "updates", "warmup", "batch_tokens", "average", "threads")),
        *({name: 0} for name in ("save_every", "validate_every", "stop_after")), dict(clip=-1.0), dict(d_embedding=-1),
        dict(max_tokens=2), dict(dropout=1.0), dict(dropout=float("nan")), dict(label_smoothing=-0.1),
        dict(cooldown=1.1), dict(peak_rate=0.0), dict(peak_rate=float("inf")), dict(architecture="rnn"),
        dict(positions="rotary"),
    ],
)  # fmt: skip
def test_options_that_make_no_run_are_refused(option: dict[str, Any]) -> None:
    name, value = next(iter(option.items()))
    with pytest.raises(TrainingError, match=f"{name}={value} makes no run: choose") as caught:
        TranslationOptions.of(data=HERE, work=HERE, **option)
    assert isinstance(caught.value.message, Message)
    assert f"{name}={value} 不能训练" in caught.value.message.in_language("zh")


def test_the_rate_rises_then_falls_with_the_root_and_at_last_to_zero() -> None:
    options = loop.ScheduleOptions(updates=1000, warmup=100, peak_rate=0.01, cooldown=0.25)
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
    assert options.unusual()["seed"] == 7
    assert "dropout" not in options.unusual()
    assert options.languages == ("en", "de")
