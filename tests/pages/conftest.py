"""What tests of several pages stand on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedmap.checkpoint.ours.folder import save_folder
from heedmap.nn.kmer import KmerClassifier
from heedmap.nn.recurrent import Recurrent
from heedmap.nn.seq2seq import Seq2Seq
from tests.classifiers import sequence_checkpoint
from tests.pages.opening import Files
from tests.pages.tiny import save_tiny, save_tiny_recurrent
from ui.store import cache


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints with a tiny random translator, to be read alone."""
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny(folder)
    return folder


@pytest.fixture
def shipped(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny random translator in place of the shipped checkpoints."""
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tiny_folder)


@pytest.fixture(scope="session")
def models_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tiny random translators and a classifier, to be read alone."""
    folder = tmp_path_factory.mktemp("models")
    save_tiny(folder)
    save_tiny_recurrent(folder, "additive", "unlike")
    small = sequence_checkpoint()
    examples = ("ACGTTGCAAGTGTCAGTTGACGTACC", "ACGTACGTACGT")
    save_folder(folder / "letters", "kmer", small.model, task=small.task, examples=examples)
    return folder


@pytest.fixture
def models(models_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tiny random translators and a classifier in place of the shipped checkpoints."""
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", models_folder)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every time that a model reads a source or letters."""
    seen: list[str] = []

    def counted(name: str, original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            seen.append(name)
            return original(*args)

        return call

    for model, name in ((Seq2Seq, "encode"), (Recurrent, "start"), (KmerClassifier, "forward")):
        monkeypatch.setattr(model, name, counted(name, getattr(model, name)))
    cache.clear()
    return seen


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    """The files of the page by their endings: each one's name, and what makes it."""
    found: Files = {}

    def button(_: str, data: Callable[[], Any], file_name: str, *__: object, **___: object) -> bool:
        found[file_name.rpartition(".")[2]] = file_name, data
        return False

    monkeypatch.setattr("streamlit.download_button", button)
    return found
