"""The reference of the library is made from its docstrings, and names everything that a notebook imports."""

import subprocess
import sys
from pathlib import Path

import transformer
from tests.imports import ROOT


def test_the_reference_is_built_without_a_warning_and_names_all_that_is_public(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "pdoc", "transformer", "--output-directory", tmp_path]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=170)
    assert built.returncode == 0, built.stderr
    assert "warn" not in built.stderr.lower()
    page = (tmp_path / "transformer.html").read_text(encoding="utf-8")
    missing = [name for name in transformer.__all__ if f'id="{name}"' not in page]
    assert not missing


def test_all_that_is_public_is_explained() -> None:
    for name in transformer.__all__:
        found = getattr(transformer, name)
        assert (found.__doc__ or "").strip(), name
