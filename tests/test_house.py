"""The rules of the house that a machine can check: who imports whom, and what no file may hold.

The import table is the one of ARCHITECTURE.md; it is read off the syntax trees, so an import inside a function counts.
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

FORBIDDEN = {
    "transformer": ("streamlit", "ui", "pages", "app"),
    "transformer.layers": (
        "plotly", "transformer.models", "transformer.capture", "transformer.record", "transformer.figures",
        "transformer.checkpoint", "transformer.decoding", "transformer.run", "transformer.training",
    ),
    "transformer.models": (
        "plotly", "transformer.capture", "transformer.record", "transformer.figures", "transformer.checkpoint",
        "transformer.decoding", "transformer.run", "transformer.training",
    ),
    "transformer.record": ("transformer.models", "transformer.run", "transformer.checkpoint", "transformer.decoding"),
    "transformer.measures": ("transformer.models", "transformer.run", "transformer.checkpoint", "transformer.decoding"),
    "transformer.figures": (
        "torch", "transformer.models", "transformer.layers", "transformer.run", "transformer.checkpoint",
        "transformer.decoding",
    ),
    "transformer.decoding": ("plotly", "transformer.run", "transformer.figures", "transformer.training"),
    "transformer.capture": ("plotly", "transformer.models", "transformer.run", "transformer.figures"),
    "transformer.checkpoint": ("plotly", "transformer.run", "transformer.figures", "transformer.training"),
    "transformer.run": ("plotly", "transformer.figures", "transformer.training"),
    "ui": ("pages", "app", "transformer.training"),
    "pages": ("torch", "plotly", "transformer.layers", "transformer.models", "transformer.training", "app"),
    "app": ("torch", "plotly", "transformer"),
}  # fmt: skip
"""Module or package -> what it and everything in it must never import."""


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


@pytest.mark.parametrize("place", FORBIDDEN)
def test_imports_point_one_way(place: str) -> None:
    wrong = [
        f"{relative(path)} imports {name}"
        for path in sources(place)
        for name in sorted(imports(path))
        if any(within(name, forbidden) for forbidden in FORBIDDEN[place])
    ]
    assert not wrong, "\n".join(wrong)


def test_the_import_walk_sees_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    module = tmp_path / "transformer" / "layers" / "x.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import torch.nn\ndef f():\n    from ..models import seq2seq\n    from . import masks\n    from a.b import c\n"
    )
    expected = {"torch.nn", "transformer.models.seq2seq", "transformer.layers.masks", "a.b.c"}
    assert imports(module) == expected


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_a_module_is_short_says_what_it_is_for_and_swallows_nothing(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "a module begins with a docstring"
    assert len(path.read_text().splitlines()) <= MAX_LINES, "one idea a file: split it"
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    for handler in handlers:
        assert handler.type is not None, f"line {handler.lineno}: name what is caught"
        empty = all(isinstance(statement, (ast.Pass, ast.Continue)) for statement in handler.body)
        assert not empty, f"line {handler.lineno}: an exception is swallowed"


@pytest.mark.parametrize("path", sources(*SOURCES), ids=relative)
def test_only_commands_print(path: Path) -> None:
    if path.stem in ("__main__", "commands"):
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    printing = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
    assert not printing, f"prints in lines {printing}"


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
