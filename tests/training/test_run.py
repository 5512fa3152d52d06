"""The training loop: it learns, it goes on after a stop as if there had been none."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests import toy
from tests.full_disk import at_most
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.errors import CheckpointError, TrainingError
from transformer.nn.recurrent import Recurrent
from transformer.runs.measures.head_agreement import head_agreement, known_agreement
from transformer.text.batch import pad
from transformer.training.loop import NextTokenLoss, Trainer, fast_products
from transformer.training.options import CHOICES
from transformer.training.run import Run
from transformer.training.translation import Translation, new_model
from transformer.training.translator_folder import export

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = CHOICES["architecture"]
RECURRENT: dict[str, Any] = dict(d_model=7, d_embedding=5, clip=1.0, history=False, peak_rate=0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write_corpus(tmp_path_factory.mktemp("corpus") / "toy")


def begun(data: Path, work: Path, **changes: Any) -> Run[Translation]:
    return Run(toy.training_options(data, work, **changes), Translation)


def trained(data: Path, work: Path, **changes: Any) -> Run[Translation]:
    run = begun(data, work, **changes)
    run.train()
    return run


def state(work: Path) -> dict[str, Any]:
    return torch.load(work / "state.pt", weights_only=True)


def curve(work: Path) -> list[dict[str, Any]]:
    """The curve without the time that it took."""
    entries = [json.loads(line) for line in (work / "curve.jsonl").read_text().splitlines()]
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in entries]


def assert_same(first: Any, second: Any) -> None:
    """Equal to the bit, all the way down; only the seconds may differ."""
    assert type(first) is type(second)
    if isinstance(first, Tensor):
        assert torch.equal(first, second)
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first.keys() - {"seconds"}:
            assert_same(first[name], second[name])
    else:
        assert first == second


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
    assert stopped.progress.update == 5
    assert stopped.progress.batch > 0
    resumed = trained(data, work)
    assert resumed.finished
    assert_same(state(work), state(straight))
    assert curve(work) == curve(straight)
    for path in (straight / "weights").iterdir():
        assert_same(load_file(path), load_file(work / "weights" / path.name))


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
    assert_same(state(work), state(straight))
    assert curve(work) == curve(straight)
    for path in (straight / "weights").iterdir():
        assert_same(load_file(path), load_file(work / "weights" / path.name))


KILLED = """
import os, signal, sys
from pathlib import Path
from tests import toy
from transformer.training.run import Run
from transformer.training.translation import Translation

run = Run(toy.training_options(Path(sys.argv[1]), Path(sys.argv[2])), Translation)
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
    """Subwords are dropped at random here (the default), and every process has other hashes."""
    work = tmp_path / "run"
    assert begun(data, work).options.changed().get("subword_dropout") is None
    command = [sys.executable, "-c", KILLED, str(data), str(work), "6"]
    variables = environment() | {"PYTHONHASHSEED": "1"}  # not the one of this process
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert trained(data, work).finished
    assert state(work)["progress"]["epoch"] > 0
    assert_same(state(work), state(straight))
    assert curve(work) == curve(straight)


def test_a_finished_run_has_nothing_left_to_do(data: Path, straight: Path) -> None:
    before = state(straight)
    run = trained(data, straight)
    assert run.finished
    assert_same(state(straight), before)


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
        (
            dict(d_model=8),
            "d_model=8, but .* holds a run with d_model=6: resume it with 6, or choose another work folder",
        ),
        (dict(seed=2), "seed=2, but .* holds a run with seed=1"),
        (dict(updates=13), "updates=13, but .* holds a run with updates=12"),
    ],
)
def test_other_options_do_not_resume_a_run(data: Path, straight: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        begun(data, straight, **changes)


def test_pace_and_place_may_change(data: Path, straight: Path) -> None:
    assert begun(data, straight, threads=1, stop_after=3).finished


def test_a_broken_state_is_refused(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", stop_after=1)
    (tmp_path / "run" / "state.pt").write_bytes(b"half a file")
    with pytest.raises(TrainingError, match=r"state\.pt cannot be resumed: delete the folder"):
        begun(data, tmp_path / "run")
    trained(data, tmp_path / "other", stop_after=1)
    (tmp_path / "other" / "options.json").write_text("{")
    with pytest.raises(TrainingError, match=r"options\.json cannot be read"):
        begun(data, tmp_path / "other")


def test_text_without_a_usable_pair_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="max_tokens=4 leaves no pair to learn from"):
        begun(data, tmp_path / "run", max_tokens=4)


@pytest.mark.parametrize("architecture", ARCHITECTURES[1:])
def test_the_same_loop_makes_recurrent_models(data: Path, tmp_path: Path, architecture: str) -> None:
    straight = trained(data, tmp_path / "straight", architecture=architecture, **RECURRENT)
    assert isinstance(straight.task.model, Recurrent)
    assert straight.task.model.config.attention == architecture.removeprefix("rnn-")
    assert not trained(data, tmp_path / "run", architecture=architecture, stop_after=5, **RECURRENT).finished
    assert trained(data, tmp_path / "run", architecture=architecture, **RECURRENT).finished
    assert_same(state(tmp_path / "run"), state(tmp_path / "straight"))
    entries = curve(tmp_path / "run")
    assert entries == curve(tmp_path / "straight")
    assert entries[-1]["valid_loss"] < entries[0]["valid_loss"] - 0.05


def test_without_a_history_its_updates_are_not_measured(data: Path, tmp_path: Path) -> None:
    longer = dict(RECURRENT, updates=51, validate_every=40, save_every=40)
    run = trained(data, tmp_path / "run", architecture="rnn-additive", **longer)
    assert [entry["update"] for entry in curve(tmp_path / "run")] == [40, 51]
    assert run.store.saved() == [40, 51]


def test_a_run_takes_over_a_tokenizer(data: Path, tmp_path: Path) -> None:
    given, other = tmp_path / "given.model", tmp_path / "other.model"
    given.write_bytes(toy.tokenizer().model)
    begun(data, tmp_path / "run", tokenizer=given)
    assert (tmp_path / "run" / "tokenizer.model").read_bytes() == given.read_bytes()
    trained(data, tmp_path / "own", vocab_size=47, stop_after=1)
    other.write_bytes((tmp_path / "own" / "tokenizer.model").read_bytes())
    assert trained(data, tmp_path / "own", vocab_size=47, tokenizer=other, stop_after=2).progress.update == 2
    with pytest.raises(TrainingError, match=r"tokenizer=.*given\.model, but .* holds a run with another one"):
        begun(data, tmp_path / "own", vocab_size=47, tokenizer=given)
    with pytest.raises(CheckpointError, match=r"absent\.model"):
        begun(data, tmp_path / "new", tokenizer=tmp_path / "absent.model")


def test_a_long_gradient_is_shortened(data: Path, tmp_path: Path) -> None:
    lengths = {}
    for clip in (0.0, 0.01):
        weights = trained(data, tmp_path / str(clip), clip=clip, updates=1).trainer.parameters
        lengths[clip] = nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None]).item()
    assert lengths[0.0] > 0.1
    assert lengths[0.01] == pytest.approx(0.01, rel=1e-3)


def test_fast_products_are_products(data: Path, tmp_path: Path) -> None:
    a, b = torch.randn(31, 256), torch.randn(256, 37)
    before = torch.get_float32_matmul_precision()
    with fast_products():
        assert torch.get_float32_matmul_precision() == "medium"
        torch.testing.assert_close(a @ b, (a.double() @ b.double()).float(), rtol=0, atol=0.2)
    with fast_products(False):
        assert torch.get_float32_matmul_precision() == before
    assert torch.get_float32_matmul_precision() == before
    for fast in (False, True):
        trained(data, tmp_path / str(fast), fast_products=fast, updates=4)
    first, second = (curve(tmp_path / str(fast))[-1]["valid_loss"] for fast in (False, True))
    assert first == pytest.approx(second, abs=0.01)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
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
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.changed().items()]
    step = Trainer.step

    def asked_to_end(self: Trainer, update: int, *given: Any) -> float:
        if update == 3:
            signal.raise_signal(signal.SIGTERM)
        return step(self, update, *given)

    monkeypatch.setattr(Trainer, "step", asked_to_end)
    command = ["train", "translation", f"--data={data}", f"--work={work}", f"--out={tmp_path / 'out'}", *arguments]
    assert main(command) == 128 + signal.SIGTERM
    assert "stopped after update 3 of 100000: the same command goes on" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    assert not (tmp_path / "out").exists()
    assert Run(options, Translation).progress.update == 3


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
