"""A random translator, and a command line run in this process."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from heedmap import __main__ as command_line
from tests import toy


class Outcome(NamedTuple):
    """Exit status, stdout in bytes, stderr as text."""

    status: int
    out: bytes
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process, where stdout is by default one that no other letters can be written to."""

    def runner(*arguments: object, stdin: bytes = b"", encoding: str = "ascii") -> Outcome:
        stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        monkeypatch.setattr(sys, "stdout", stdout)
        status = command_line.main([str(argument) for argument in arguments])
        return Outcome(status, stdout.buffer.getvalue(), capsys.readouterr().err)

    return runner


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random translator, `toy`, and a text of eleven lines beside it, `a.en` and `a.de`."""
    torch.manual_seed(0)
    found = toy.write_checkpoint(tmp_path_factory.mktemp("commands") / "toy")
    toy.write_sides(found.parent, toy.sentences(11, seed=3), "a.en", "a.de")
    return found
