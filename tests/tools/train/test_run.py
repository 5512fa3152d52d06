"""Training: it learns, and goes on after a stop as if there had been none; what options and the command refuse."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from heedmap.training.descent import descend
from heedmap.training.snapshots import unpacked
from heedmap.training.tasks import Settings
from tests.full_disk import at_most
from tests.imports import ROOT
from tests.tools.train.conftest import begun, classifying, curve, plain, state, trained, training_options
from tools import ToolError
from tools.train.__main__ import flag, main
from tools.train.options import ARCHITECTURES, ScheduleOptions, TranslationOptions
from tools.train.run import TrainingRun, is_snapshot
from tools.train.translation import TranslationTask

RECURRENT: dict[str, Any] = dict(d_model=7, d_embedding=5, clip=1.0, history=False, peak_rate=0.02)
HERE = Path()


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
    with at_most(needed - 1), pytest.raises(ToolError, match=f"{full} cannot be written .*File too large.*make"):
        trained(data, work)
    assert state(work)["progress"]["update"] == 9
    assert not list(work.rglob("*.new"))
    trained(data, work)
    assert_same_run(work, straight)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.tools.train.conftest import training_options
from tools.train.run import TrainingRun
from tools.train.translation import TranslationTask

run = TrainingRun(training_options(Path(sys.argv[1]), Path(sys.argv[2])), TranslationTask)
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
    with pytest.raises(ToolError, match=message):
        begun(data, straight, **changes)


def test_a_broken_state_is_refused(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", stop_after=1)
    (tmp_path / "run" / "state.pt").write_bytes(b"half a file")
    with pytest.raises(ToolError, match=r"state\.pt cannot be resumed: delete the folder"):
        begun(data, tmp_path / "run")


def test_without_a_history_its_updates_are_not_measured(data: Path, tmp_path: Path) -> None:
    longer = dict(RECURRENT, updates=51, validate_every=40, save_every=40)
    run = trained(data, tmp_path / "run", architecture="rnn-additive", **longer)
    assert [entry["update"] for entry in curve(tmp_path / "run")] == [40, 51]
    assert run.saved == [40, 51]


def test_the_newest_weights_are_averaged_and_the_snapshots_kept(data: Path, tmp_path: Path) -> None:
    """Neither snapshots nor what is too old belong to the mean; 50 is a snapshot and no regular update."""
    assert [update for update in range(7000) if is_snapshot(update)] == [50, 100, 200, 400, 800, 1600, 3200, 6400]
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


def test_sigterm_stops_after_the_update_in_hand(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is asked to end while it works at its third update."""
    work, before = tmp_path / "run", signal.getsignal(signal.SIGTERM)
    options = training_options(data, work, updates=100_000, save_every=1, validate_every=50_000)
    arguments = [f"{flag(name)}={value}" for name, value in options.unusual().items()]

    def asked_to_end(*given: Any, seed: tuple[int, int], **options: Any) -> float:
        if seed[1] == 3:
            signal.raise_signal(signal.SIGTERM)
        return descend(*given, seed=seed, **options)

    monkeypatch.setattr("tools.train.run.descend", asked_to_end)
    command = ["translation", f"--data={data}", f"--work={work}", f"--out={tmp_path / 'out'}", *arguments]
    assert main(command) == 128 + signal.SIGTERM
    assert "stopped after update 3 of 100000: the same command goes on" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    assert not (tmp_path / "out").exists()
    assert TrainingRun(options, TranslationTask).progress.update == 3


@pytest.mark.parametrize("kind", ["classifier", *ARCHITECTURES[1:]])
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
    with pytest.raises(ToolError, match=f"{name}={value} makes no run: choose"):
        TranslationOptions.of(data=HERE, work=HERE, **option)


def test_the_rate_rises_then_falls_with_the_root_and_at_last_to_zero() -> None:
    options = ScheduleOptions(updates=1000, warmup=100, peak_rate=0.01, cooldown=0.25)
    assert options.rate(50) == pytest.approx(0.005)
    assert options.rate(100) == 0.01
    assert options.rate(400) == pytest.approx(0.005)
    assert options.rate(751) == pytest.approx(0.01 * (100 / 751) ** 0.5)
    assert options.rate(876) == pytest.approx(0.01 * (100 / 876) ** 0.5 / 2)
    assert 0 < options.rate(1000) < 0.0001
    rates = [options.rate(update) for update in range(1, 1001)]
    assert max(rates) == rates[99]


def test_what_decides_the_result_leaves_out_places_and_pace() -> None:
    options = training_options(HERE / "a", HERE / "b", threads=3, stop_after=5, seed=7)
    assert "data" not in options.deciding()
    assert options.deciding() == training_options(HERE, HERE, seed=7).deciding()
    assert options.unusual()["seed"] == 7
    assert "dropout" not in options.unusual()
    assert options.languages == ("en", "de")


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
