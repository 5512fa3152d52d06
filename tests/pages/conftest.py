"""What tests of several pages stand on."""

from pathlib import Path

import pytest

from tests.pages.tiny import save_tiny


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny random translator in place of the shipped checkpoints."""
    save_tiny(tmp_path)
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
