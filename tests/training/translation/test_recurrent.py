"""The same training loop makes recurrent models; runs from before there were any go on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests import toy
from tests.training.translation.test_run import assert_same, curve, state, trained
from transformer.errors import CheckpointError, TrainingError
from transformer.models.recurrent import Recurrent
from transformer.training.processes import fast_products
from transformer.training.translation.run import Run

KINDS = ("rnn-additive", "rnn-location")
SIZES: dict[str, Any] = dict(d_model=7, d_embedding=5, clip=1.0, history=False, peak_rate=0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write_corpus(tmp_path_factory.mktemp("corpus") / "toy")


@pytest.mark.parametrize("architecture", KINDS)
def test_a_stopped_run_goes_on_as_if_it_had_not_been(data: Path, tmp_path: Path, architecture: str) -> None:
    straight = trained(data, tmp_path / "straight", architecture=architecture, **SIZES)
    assert isinstance(straight.model, Recurrent)
    assert straight.model.config.attention == architecture.removeprefix("rnn-")
    assert not trained(data, tmp_path / "run", architecture=architecture, stop_after=5, **SIZES).finished
    assert trained(data, tmp_path / "run", architecture=architecture, **SIZES).finished
    assert_same(state(tmp_path / "run"), state(tmp_path / "straight"))
    entries = curve(tmp_path / "run")
    assert entries == curve(tmp_path / "straight")
    assert entries[-1]["valid_loss"] < entries[0]["valid_loss"] - 0.05


def test_without_a_history_its_updates_are_not_measured(data: Path, tmp_path: Path) -> None:
    longer = dict(SIZES, updates=51, validate_every=40, save_every=40)
    run = trained(data, tmp_path / "run", architecture="rnn-additive", **longer)
    assert [entry["update"] for entry in curve(tmp_path / "run")] == [40, 51]
    assert run.store.saved() == [40, 51]


def test_a_run_takes_over_a_tokenizer(data: Path, tmp_path: Path) -> None:
    given, other = tmp_path / "given.model", tmp_path / "other.model"
    given.write_bytes(toy.tokenizer().model)
    run = Run(toy.training_options(data, tmp_path / "run", tokenizer=given))
    assert run.store.tokenizer.read_bytes() == given.read_bytes()
    run = trained(data, tmp_path / "own", vocab_size=47, stop_after=1)
    other.write_bytes(run.tokenizer.model)
    assert trained(data, tmp_path / "own", vocab_size=47, tokenizer=other, stop_after=2).progress.update == 2
    with pytest.raises(TrainingError, match=r"tokenizer=.*given\.model, but .* holds a run with another one"):
        Run(toy.training_options(data, tmp_path / "own", vocab_size=47, tokenizer=given))
    with pytest.raises(CheckpointError, match=r"absent\.model"):
        Run(toy.training_options(data, tmp_path / "new", tokenizer=tmp_path / "absent.model"))


def test_a_run_from_before_there_was_an_option_had_its_default(data: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run", stop_after=1)
    path = tmp_path / "run" / "options.json"
    saved = json.loads(path.read_text())
    for name in ("architecture", "d_embedding", "tokenizer", "clip", "fast_products", "history"):
        del saved[name]
    path.write_text(json.dumps(saved))
    assert Run(toy.training_options(data, tmp_path / "run")).progress.update == 1
    with pytest.raises(TrainingError, match=r"architecture=rnn-location, but .* a run with architecture=transformer"):
        Run(toy.training_options(data, tmp_path / "run", architecture="rnn-location"))


def test_a_long_gradient_is_shortened(data: Path, tmp_path: Path) -> None:
    lengths = {}
    for clip in (0.0, 0.01):
        run = trained(data, tmp_path / str(clip), clip=clip, updates=1)
        lengths[clip] = nn.utils.get_total_norm([p.grad for p in run.model.parameters() if p.grad is not None]).item()
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
    plain, fast = (trained(data, tmp_path / str(f), fast_products=f, updates=4) for f in (False, True))
    first, second = (curve(tmp_path / str(f))[-1]["valid_loss"] for f in (False, True))
    assert first == pytest.approx(second, abs=0.01)
    assert plain.options.fast_products is not fast.options.fast_products
