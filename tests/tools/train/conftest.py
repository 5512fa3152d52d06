"""A toy pair of languages, tables of labelled sequences, trainings of seconds on them, and what these left."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests import toy
from tools.train.classification import ClassificationTask
from tools.train.options import ClassificationOptions, TranslationOptions
from tools.train.run import TrainingRun
from tools.train.translation import TranslationTask

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


def classifying(tables: Path, work: Path, **changes: Any) -> TrainingRun[ClassificationTask]:
    return TrainingRun(ClassificationOptions.of(data=tables, work=work, **(SMALL | changes)), ClassificationTask)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write_corpus(tmp_path_factory.mktemp("corpus") / "toy")


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
