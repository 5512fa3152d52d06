"""The rules that a machine can check: who imports whom, and what no file may hold.

Imports are read off the syntax trees, so one inside a function counts.
"""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests import imports as walk
from tests.imports import FILES, PYTHON, ROOT, SOURCES, imports, relative, sources, wrong_ways

TEXT = {".py", ".md", ".toml", ".txt", ".js", ".css", ".html", ".json", ".jsonl", ".yml", ".cfg", ""}
TEXT_FILES = [path for path in FILES if path.suffix in TEXT]
MAX_LINES = 450
MAX_CHECKPOINTS = 60_000_000


def test_imports_lead_down() -> None:
    wrong = [line for path in sources(*SOURCES) for line in wrong_ways(path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("place", "line", "ways"),
    [
        ("transformer/plots/x.py", "from transformer.attention.record import Record", 1),
        ("transformer/attention/x.py", "def f():\n    from transformer.runs import translate", 1),
        ("transformer/attention/x.py", "from transformer.plots.heatmap import heatmap", 0),
        ("transformer/safe/x.py", "def f():\n    from transformer.checkpoint import load", 1),
        ("transformer/checkpoint/x.py", "from transformer.safe import limits", 0),
        ("ui/align/x.py", "from ui.translate import views", 1),
        ("ui/align/x.py", "import torch", 0),
        ("pages/x.py", "import torch.nn", 1),
        ("transformer/runs/x.py", "import streamlit", 1),
    ],
)
def test_both_directions_and_hidden_imports_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, line: str, ways: int
) -> None:
    monkeypatch.setattr(walk, "ROOT", tmp_path)
    module = tmp_path / place
    module.parent.mkdir(parents=True)
    module.write_text(line + "\n")
    assert len(wrong_ways(module)) == ways


def test_the_import_walk_sees_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "ROOT", tmp_path)
    module = tmp_path / "transformer" / "nn" / "x.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import torch.nn\ndef f():\n    from ..nn import search\n    from . import masks\n    from a.b import c\n"
    )
    expected = {"torch.nn", "transformer.nn.search", "transformer.nn.masks", "a.b.c"}
    assert imports(module) == expected


def test_a_module_says_what_it_is_for_is_short_and_swallows_nothing() -> None:
    wrong = []
    for path in PYTHON:
        text = path.read_text()
        tree = ast.parse(text)
        if not ast.get_docstring(tree):
            wrong.append(f"{relative(path)} does not begin with a docstring")
        if len(text.splitlines()) > MAX_LINES:
            wrong.append(f"{relative(path)} is longer than {MAX_LINES} lines: one idea a file")
        wrong += [
            f"{relative(path)}:{handler.lineno} swallows an exception"
            for handler in ast.walk(tree)
            if isinstance(handler, ast.ExceptHandler)
            and all(isinstance(statement, (ast.Pass, ast.Continue)) for statement in handler.body)
        ]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_unfinished_and_no_path_of_one_machine_is_written_down() -> None:
    unfinished = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "raise NotImplemented" + "Error"))
    machine = r"(?<![\w.])/(?:" + "|".join(("work", "tmp", "root", "home", "Users")) + r")/\w"
    pattern = re.compile(rf"\b(?:{unfinished})\b|{machine}")
    found = [
        f"{relative(path)}:{number}: {line.strip()[:100]}"
        for path in TEXT_FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


HUGGING_FACE = {"transformers", "tokenizers"}
"""What requirements-hf.txt brings: the library and the tokenizers that it is built on."""


def requirements(name: str) -> set[str]:
    """Distribution names in a requirements file, in lower case, without those of files it includes."""
    lines = (ROOT / name).read_text().splitlines()
    names = (re.match(r"[A-Za-z0-9_.-]+", line) for line in lines if line and line[0] not in "#-")
    return {match.group().lower() for match in names if match}


def third_party(*places: str) -> set[str]:
    """Distributions that the modules in `places` import directly."""
    owners = packages_distributions()
    tops = {name.partition(".")[0] for path in sources(*places) for name in imports(path)}
    ours = {"app", "transformer", "ui", "pages", "tests", "benchmarks", "docs"}
    return {owners[top][0].lower() for top in tops - ours - sys.stdlib_module_names}


def test_every_requirement_is_imported_and_every_import_is_required() -> None:
    files = ("requirements.txt", "requirements-hf.txt", "requirements-cluster.txt")
    by_streamlit = {"uvloop"}  # which takes it where it is installed
    assert third_party(*SOURCES) | by_streamlit == set().union(*map(requirements, files))


def test_every_tool_of_development_is_used() -> None:
    places = ("Makefile", "pyproject.toml", "tests/conftest.py", "mkdocs.yml")
    settings = "".join((ROOT / name).read_text() for name in places)
    needed = third_party("tests", "benchmarks", "docs") - requirements("requirements.txt") - HUGGING_FACE
    needed -= requirements("requirements-cluster.txt")
    assert needed <= requirements("requirements-dev.txt")
    tools = requirements("requirements-dev.txt") | requirements("requirements-docs.txt")
    for name in tools - needed:
        assert name.removeprefix("pytest-").removeprefix("mkdocs-") in settings, f"nothing uses {name}"


def test_the_shipped_checkpoints_stay_small() -> None:
    sizes = {relative(path): path.stat().st_size for path in FILES if path.is_relative_to(ROOT / "checkpoints")}
    assert sum(sizes.values()) < MAX_CHECKPOINTS, sizes
