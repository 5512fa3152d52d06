"""Trainings of seconds: their options, how they are begun, and what they left."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from tools.train.classification import ClassificationTask
from tools.train.options import ClassificationOptions, TranslationOptions
from tools.train.run import TrainingRun
from tools.train.translation import TranslationTask

RECURRENT: dict[str, Any] = dict(d_model=7, d_embedding=5, clip=1.0, history=False, peak_rate=0.02)
LENGTH = 20
SMALL: dict[str, Any] = dict(
    d_model=8, n_heads=2, d_ff=8, widths="2,3", batch=16, updates=40, warmup=5, peak_rate=0.03, save_every=5,
    validate_every=10, average=3, background="N",
)  # fmt: skip


def training_options(data: Path, work: Path, **changes: Any) -> TranslationOptions:
    """A run of seconds; two batches and a bit are an epoch."""
    sizes = dict(vocab_size=53, d_model=6, n_heads=2, d_ff=11, n_layers=1, max_tokens=32)
    pace = dict(batch_tokens=256, updates=12, warmup=4, save_every=2, validate_every=4, average=3)
    return TranslationOptions.of(data=data, work=work, **(sizes | pace | changes))


def begun(data: Path, work: Path, **changes: Any) -> TrainingRun[TranslationTask]:
    return TrainingRun(training_options(data, work, **changes), TranslationTask)


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


def classifying(tables: Path, work: Path, **changes: Any) -> TrainingRun[ClassificationTask]:
    return TrainingRun(ClassificationOptions.of(data=tables, work=work, **(SMALL | changes)), ClassificationTask)
