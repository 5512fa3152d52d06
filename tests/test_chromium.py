"""The browser tests find the Chromium that they are told, or say clearly that there is none."""

from pathlib import Path

import pytest

from tests import chromium


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with an empty PATH and no Chromium of Playwright's; returns the PATH's only folder."""
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "_of_playwright", lambda: None)
    return tmp_path


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_one_that_is_named_wins(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "chromium")
    named = program(tmp_path / "mine")
    monkeypatch.setenv("CHROMIUM", str(named))
    assert chromium.find() == named


def test_a_name_that_is_no_program_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", str(bare / "nothing"))
    with pytest.raises(FileNotFoundError, match=r"CHROMIUM=.*nothing is no program: correct it"):
        chromium.find()


def test_one_on_the_path_is_found(bare: Path) -> None:
    assert chromium.find() is None
    found = program(bare / "google-chrome")
    assert chromium.find() == found


def test_when_none_can_be_installed_it_says_what_to_do(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = program(bare / "install")
    failing.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setattr(chromium, "_installations", lambda: [[[str(failing)]]])
    with pytest.raises(FileNotFoundError, match="install chromium or google-chrome, or set CHROMIUM"):
        chromium.find_or_install()


def test_what_an_installation_brings_is_used(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installer = program(bare / "install")
    installer.write_text(f"#!/bin/sh\n/bin/cp {installer} {bare / 'chromium'}\n")
    monkeypatch.setattr(chromium, "_installations", lambda: [[[str(installer)]]])
    assert chromium.find_or_install() == bare / "chromium"
