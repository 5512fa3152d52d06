"""The rules that a machine can check: who imports whom, and what no file may hold.

Imports are read off the syntax trees, so one inside a function counts.
"""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests import imports as walk
from tests.imports import ALIAS, FILES, PYTHON, ROOT, SOURCES, imports, relative, sources, wrong_ways

TEXT = {".py", ".md", ".toml", ".txt", ".js", ".css", ".html", ".json", ".jsonl", ".yml", ".cfg", ""}
TEXT_FILES = [path for path in FILES if path.suffix in TEXT]
MAX_CHECKPOINTS = 60_000_000


def test_imports_lead_down() -> None:
    wrong = [line for path in sources(*SOURCES) for line in wrong_ways(path)]
    assert not wrong, "\n".join(wrong)


def test_the_library_does_not_depend_on_the_name_of_its_folder() -> None:
    """Imports inside are relative, others name `heedmap`: a `transformer.py` that comes first does no harm."""
    named = re.compile(rf"^\s*(?:from|import) (?:{ALIAS}|heedmap)\b", re.MULTILINE)
    inside = [path for path in PYTHON if path.is_relative_to(ROOT / ALIAS)]
    wrong = [relative(path) for path in inside if named.search(path.read_text(encoding="utf-8"))]
    wrong += [relative(path) for path in PYTHON if ALIAS in {name.partition(".")[0] for name in imports(path)}]
    assert not wrong


def test_both_directions_and_hidden_imports_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, line, ways in (
        ("transformer/plots/a.py", "from heedmap.attention.record import Record", 1),
        ("transformer/attention/a.py", "def f():\n    from heedmap.runs import translate", 1),
        ("transformer/attention/b.py", "from heedmap.plots.heatmap import heatmap", 0),
        ("transformer/safe/a.py", "def f():\n    from heedmap.checkpoint import load", 1),
        ("transformer/checkpoint/a.py", "from heedmap.safe import limits", 0),
        ("ui/align/a.py", "from ui.translate import views", 1),
        ("ui/align/b.py", "import torch", 0),
        ("pages/a.py", "import torch.nn", 1),
        ("transformer/runs/a.py", "import streamlit", 1),
        ("transformer/runs/b.py", "from tools.train import run", 1),
        ("ui/align/c.py", "def f():\n    import tools.train", 1),
        ("pages/b.py", "from tools import ToolError", 1),
        ("tools/a.py", "from heedmap.commands import Command", 0),
        ("tools/b.py", "from ui.store import store", 1),
    ):
        assert len(wrong_ways(written(tmp_path, monkeypatch, place, line))) == ways, place


def test_no_modules_import_each_other_in_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TopologicalSorter(walk.imported_modules(sources(*SOURCES))).prepare()
    a = written(tmp_path, monkeypatch, "transformer/nn/a.py", "from heedmap.nn.b import one")
    b = written(tmp_path, monkeypatch, "transformer/nn/b.py", "def f():\n    from heedmap.nn import a")
    with pytest.raises(CycleError, match="cycle"):
        TopologicalSorter(walk.imported_modules([a, b])).prepare()


def test_the_import_walk_sees_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch.nn\ndef f():\n    from ..nn import search\n    from . import masks\n    from a.b import c"
    module = written(tmp_path, monkeypatch, "transformer/nn/x.py", text)
    assert imports(module) == {"torch.nn", "heedmap.nn.search", "heedmap.nn.masks", "a.b.c"}


def written(root: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str) -> Path:
    """A module of a project of one file."""
    monkeypatch.setattr(walk, "ROOT", root)
    module = root / place
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(text + "\n")
    return module


def test_a_module_says_what_it_is_for_and_swallows_nothing() -> None:
    trees = {relative(path): ast.parse(path.read_text()) for path in PYTHON}
    assert not [name for name, tree in trees.items() if not ast.get_docstring(tree)], "begin without a docstring"
    walked = [(name, one) for name, tree in trees.items() for one in ast.walk(tree)]
    handlers = [(name, one) for name, one in walked if isinstance(one, ast.ExceptHandler)]
    idle = ast.Pass | ast.Continue
    swallowing = [f"{name}:{one.lineno}" for name, one in handlers if all(isinstance(line, idle) for line in one.body)]
    assert not swallowing, "swallow an exception"


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


CLOCKS = {"sleep", "wait_for_timeout", "monotonic", "perf_counter", "process_time", "thread_time", "time", "getrusage"}
"""Functions that pass time, or say what it or a process took: on a slow machine a test that calls one says no."""

MAY_LOOK_AT_A_CLOCK = {
    "tests/waiting.py": "waits for conditions, for everybody",
    "tests/browser/visiting.py": "waits for conditions and for what pages put off, of a browser",
    "tests/browser/policy.py": "gives a browser time to be stopped: a short one only finds less",
    "tests/browser/test_fits.py": "looks again at a window that is not right yet",
    "tests/browser/test_planted.py": "gives tooltips time to open: a short one only finds less",
    "tests/browser/test_history.py": "presses at the pace of a hand, and waits until a page stays the same",
    "tests/test_hostile_uploads.py": "waits for a condition, of sessions in one loop",
    "tests/fuzzing.py": "reports how long it took; no test",
    "tests/checkpoint/worker/fuzz.py": "finds files that take long; no test",
}


def test_no_test_says_no_because_a_machine_is_slow() -> None:
    """Nobody sleeps, measures time or memory of a process, or runs a page with Streamlit's three seconds."""
    trees = {relative(path): ast.parse(path.read_text()) for path in PYTHON if path.is_relative_to(ROOT / "tests")}
    calls = [(name, one) for name, tree in trees.items() for one in ast.walk(tree) if isinstance(one, ast.Call)]
    attributes = [(name, one, one.func.attr) for name, one in calls if isinstance(one.func, ast.Attribute)]
    looking = {(name, one.lineno) for name, one, called in attributes if called in CLOCKS}
    assert not {(name, line) for name, line in looking if name not in MAY_LOOK_AT_A_CLOCK}
    assert MAY_LOOK_AT_A_CLOCK.keys() == {name for name, _ in looking}, "no longer needed"
    pages = [(name, one) for name, one, called in attributes if called in ("from_file", "from_function", "from_string")]
    hasty = [(name, one.lineno) for name, one in pages if "default_timeout" not in {word.arg for word in one.keywords}]
    assert not hasty


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
    ours = {"app", "heedmap", ALIAS, "ui", "pages", "tests", "benchmarks", "docs", "tools"}
    return {owners[top][0].lower() for top in tops - ours - sys.stdlib_module_names}


def test_every_requirement_is_imported_and_every_import_is_required() -> None:
    files = ("requirements.txt", "requirements-hf.txt")
    by_streamlit = {"uvloop"}  # which takes it where it is installed
    assert third_party(*SOURCES) | by_streamlit == set().union(*map(requirements, files))


def test_every_tool_of_development_is_used() -> None:
    places = ("Makefile", "pyproject.toml", "tests/conftest.py", "mkdocs.yml")
    settings = "".join((ROOT / name).read_text() for name in places)
    needed = third_party("tests", "benchmarks", "docs") - requirements("requirements.txt") - HUGGING_FACE
    assert needed <= requirements("requirements-dev.txt")
    tools = requirements("requirements-dev.txt") | requirements("requirements-docs.txt")
    for name in tools - needed:
        assert name.removeprefix("pytest-").removeprefix("mkdocs-") in settings, f"nothing uses {name}"


def test_the_shipped_checkpoints_stay_small() -> None:
    sizes = {relative(path): path.stat().st_size for path in FILES if path.is_relative_to(ROOT / "checkpoints")}
    assert sum(sizes.values()) < MAX_CHECKPOINTS, sizes


STARTED = """
import pkgutil, sys
import heedmap, ui
for package in (heedmap, ui):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            __import__(module.name)
print(*(name for name in ("scipy", "transformers") if name in sys.modules))
"""


def test_no_module_imports_what_only_some_runs_need() -> None:
    """What starts fast stays fast: heavy libraries are imported where they are used, not before the first page."""
    done = subprocess.run([sys.executable, "-c", STARTED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr[-2000:]
