"""`transformer` is `heedmap` under another name, and a stranger's file of that name harms nothing but that name."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import heedmap
from heedmap.attention.record import Record
from tests.imports import ROOT


def ran(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Python with those words, in a folder that comes before the project on the path."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-W", "error", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


def test_a_module_has_one_copy_under_both_names() -> None:
    module = import_module("heedmap.attention.record")
    assert (import_module("transformer"), module.Record) == (heedmap, Record)
    assert module is sys.modules["heedmap.attention.record"]
    assert module.__spec__ is not None
    assert module.__spec__.name == "heedmap.attention.record"
    with pytest.raises(ModuleNotFoundError, match=r"transformer\.nothing"):
        import_module("transformer.nothing")


def test_the_commands_are_those_of_both_names(tmp_path: Path) -> None:
    for name in ("transformer", "heedmap"):
        shown = ran(tmp_path, "-m", name, "inspect", "nothing.pt")
        assert (shown.returncode, "nothing.pt" in shown.stderr) == (2, True), shown.stderr


@pytest.mark.parametrize("theirs", ["transformer.py", "transformer/__init__.py", "transformer/Models.py"])
def test_beside_a_strangers_transformer_both_are_imported(theirs: str, tmp_path: Path) -> None:
    """A file, a package, and a folder without `__init__.py`, as repositories of models have them."""
    (tmp_path / theirs).parent.mkdir(exist_ok=True)
    (tmp_path / theirs).write_text("mine = 1\n")
    name = ".".join(Path(theirs).with_suffix("").parts).removesuffix(".__init__")
    for first, second in ((name, "heedmap"), ("heedmap", name)):
        code = f"import {first}, {second}, heedmap.lessons.masks\n"
        done = ran(tmp_path, "-c", code + f"assert {name}.mine == 1\nassert heedmap.recording\n")
        assert done.returncode == 0, done.stderr
    shown = ran(tmp_path, "-m", "heedmap", "translate", "--help")
    assert (shown.returncode, "usage" in shown.stdout) == (0, True), shown.stderr
