"""The rules that a machine can check: who imports whom, and what no file may hold.

Imports are read off the syntax trees, so one inside a function counts.
"""

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("app.py", "transformer", "ui", "pages")
TEXT = {".py", ".md", ".toml", ".txt", ".js", ".css", ".html", ".json", ".jsonl", ".yml", ".cfg", ""}
MAX_LINES = 400
MAX_CHECKPOINTS = 60_000_000

FLOORS = (
    ("transformer.messages", "transformer.sites"),
    ("transformer.errors",),
    ("transformer.layers", "transformer.tokens", "transformer.pictures"),
    ("transformer.models",),
    ("transformer.decoding",),
    ("transformer.figures",),
    ("transformer.attention",),
    ("transformer.sequences",),
    ("transformer.checkpoint.safe",),
    ("transformer.checkpoint",),
    ("transformer.runs",),
    ("transformer.lessons", "transformer.training"),
    ("transformer.commands",),
    ("transformer",),
    ("ui.texts", "ui.components"),
    ("ui.store",),
    ("ui.shared",),
    ("ui.translate", "ui.align", "ui.sequences", "ui.checkpoints", "ui.lessons"),
    ("ui",),
    ("pages",),
    ("app",),
)
"""The rooms from the ground up: each imports only what lies below its own floor. Rooms of one floor do not know each
other. A room stands for all of its modules that are not in a room of their own."""

NEVER = {
    "transformer": ("streamlit",),
    "transformer.layers": ("plotly",),
    "transformer.models": ("plotly",),
    "transformer.pictures": ("torch", "plotly"),
    "transformer.figures": ("torch",),
    "transformer.decoding": ("plotly",),
    "transformer.checkpoint": ("plotly",),
    "transformer.runs": ("plotly",),
    "ui": ("transformer.training", "transformer.commands"),
    "pages": ("torch", "plotly", "transformer.layers", "transformer.models", "transformer.training"),
    "app": ("torch", "plotly"),
}
"""Room -> what it must not import although it could."""


def project_files() -> list[Path]:
    """Every file that belongs to the project: tracked, or new and not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
        return [path for path in paths if path.is_file()]
    hidden = {".venv", ".git", "runs", "__pycache__"}
    return [p for p in ROOT.rglob("*") if p.is_file() and not hidden & set(p.relative_to(ROOT).parts)]


FILES = project_files()
PYTHON = [path for path in FILES if path.suffix == ".py"]
TEXT_FILES = [path for path in FILES if path.suffix in TEXT]


def name_of(path: Path) -> str:
    """The dotted name of a module: `transformer/layers/__init__.py` is `transformer.layers`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports; `from a import b` counts as `a.b`, and relative imports are resolved."""
    found = set()
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def sources(*places: str) -> list[Path]:
    return [path for path in PYTHON if any(within(name_of(path), place.removesuffix(".py")) for place in places)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room_of(name: str) -> str | None:
    """The innermost room that a dotted name lies in; None for what is not ours."""
    parts = name.split(".")
    inside = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((room for room in inside if room in FLOOR), None)


def wrong_ways(path: Path) -> list[str]:
    """Imports of a file that do not lead down."""
    here = name_of(path)
    room = room_of(here)
    assert room is not None, f"{relative(path)} stands in no room of FLOORS"
    found = []
    for name in sorted(imports(path)):
        other = room_of(name)
        if other is not None and other != room and FLOOR[other] >= FLOOR[room]:
            found.append(f"{relative(path)} ({room}) imports {name} ({other})")
        if any(within(here, place) and any(within(name, no) for no in never) for place, never in NEVER.items()):
            found.append(f"{relative(path)} imports {name}")
    return found


def test_imports_lead_down() -> None:
    wrong = [line for path in sources(*SOURCES) for line in wrong_ways(path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("place", "line", "ways"),
    [
        ("transformer/figures/x.py", "from transformer.attention.record import Record", 1),
        ("transformer/attention/x.py", "def f():\n    from transformer.runs import translate", 1),
        ("transformer/attention/x.py", "from transformer.figures.heatmap import heatmap", 0),
        ("transformer/checkpoint/safe/x.py", "def f():\n    from transformer.checkpoint import load", 1),
        ("transformer/checkpoint/x.py", "from transformer.checkpoint.safe import limits", 0),
        ("ui/align/x.py", "from ui.translate import views", 1),
        ("ui/align/x.py", "import torch", 0),
        ("pages/x.py", "import torch.nn", 1),
        ("transformer/runs/x.py", "import streamlit", 1),
    ],
)
def test_both_directions_and_hidden_imports_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, line: str, ways: int
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    module = tmp_path / place
    module.parent.mkdir(parents=True)
    module.write_text(line + "\n")
    assert len(wrong_ways(module)) == ways


def test_the_import_walk_sees_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    module = tmp_path / "transformer" / "layers" / "x.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import torch.nn\ndef f():\n    from ..models import seq2seq\n    from . import masks\n    from a.b import c\n"
    )
    expected = {"torch.nn", "transformer.models.seq2seq", "transformer.layers.masks", "a.b.c"}
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
    ours = {"app", "transformer", "ui", "pages", "tests", "benchmarks"}
    return {owners[top][0].lower() for top in tops - ours - sys.stdlib_module_names}


def test_every_requirement_is_imported_and_every_import_is_required() -> None:
    assert third_party(*SOURCES) == requirements("requirements.txt") | requirements("requirements-hf.txt")


def test_every_tool_of_development_is_used() -> None:
    settings = "".join((ROOT / name).read_text() for name in ("Makefile", "pyproject.toml", "tests/conftest.py"))
    needed = third_party("tests", "benchmarks") - requirements("requirements.txt") - HUGGING_FACE
    assert needed <= requirements("requirements-dev.txt")
    for name in requirements("requirements-dev.txt") - needed:
        assert name.removeprefix("pytest-") in settings, f"nothing uses {name}"


def test_the_shipped_checkpoints_stay_small() -> None:
    sizes = {relative(path): path.stat().st_size for path in FILES if path.is_relative_to(ROOT / "checkpoints")}
    assert sum(sizes.values()) < MAX_CHECKPOINTS, sizes
