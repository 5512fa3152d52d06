"""What tests of several pages stand on."""

from pathlib import Path

import pytest

from tests.pages.tiny import save_tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints with a tiny random translator, to be read alone."""
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny(folder)
    return folder


@pytest.fixture
def shipped(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny random translator in place of the shipped checkpoints."""
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tiny_folder)
