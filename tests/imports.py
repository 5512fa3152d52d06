"""Who imports whom: the rooms of the project from the ground up, and what the syntax trees say."""

import ast
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("app.py", "heedmap", "ui", "pages", "tools")
ALIAS = "transformer"
"""The folder of the library's modules, and its other name."""

UI = ("translate", "align", "atlas", "sequences", "your_model", "lessons", "map", "what_if", "path")

FLOORS = (
    ("heedmap.messages", "ui.patches"),
    ("heedmap.text", "heedmap.safe", "ui.texts"),
    ("heedmap.nn", "heedmap.plots"),
    ("heedmap.attention", "heedmap.sequences"),
    ("heedmap.checkpoint",),
    ("heedmap.explain",),
    ("heedmap.runs",),
    ("heedmap", "heedmap.lessons", "heedmap.training", "heedmap.atlas", ALIAS),
    ("heedmap.teaching", "heedmap.commands", "ui.components", "ui.store"),
    ("ui.shared",),
    tuple(f"ui.{page}" for page in UI),
    ("ui",),
    ("pages", "app", "tools"),
)
"""The rooms from the ground up: each imports only what lies below its own floor. Rooms of one floor do not know each
other. A room stands for all of its modules that are not in a room of their own."""

ANNEXES = {
    "heedmap.errors": "heedmap.messages",
    "heedmap.sites": "heedmap.messages",
    "heedmap.distribution": "heedmap.messages",
    "heedmap.__main__": "heedmap.commands",
}
"""Modules beside a room that belong to it."""

INSIDE = (
    ("heedmap.checkpoint.huggingface.model",),
    ("heedmap.checkpoint.checkpoint", "heedmap.checkpoint.weight_files"),
    ("heedmap.checkpoint.ours",),
    ("heedmap.checkpoint.foreign",),
    ("heedmap.checkpoint.huggingface",),
    ("heedmap.checkpoint.load",),
    ("heedmap.checkpoint.inspect",),
    ("heedmap.checkpoint.worker",),
    ("heedmap.checkpoint.foreign.bundle",),
    ("heedmap.checkpoint",),
)
"""The floors inside the room that reads other people's weights."""

NEVER = {
    "heedmap": ("streamlit",),
    **{
        f"heedmap.{room}": ("plotly",)
        for room in ("nn", "text", "plots.canvas", "checkpoint", "explain.attribution", "runs", "atlas")
    },
    "heedmap.plots": ("torch",),
    "ui": ("heedmap.commands",),
    "pages": ("torch", "plotly", "heedmap.nn", "heedmap.training"),
    "app": ("torch", "plotly"),
    "tools": ("ui", "streamlit"),
}
"""Room -> what it must not import although it could."""


HOUSE, CHECKPOINT = (
    {room: number for number, rooms in enumerate(floors) for room in rooms} for floors in (FLOORS, INSIDE)
)


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


def name_of(path: Path) -> str:
    """The dotted name of a module: `transformer/nn/__init__.py` is `heedmap.nn`; `transformer` itself is an alias."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    names = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(names if names == (ALIAS,) else imported_as(names))


def imported_as(parts: Sequence[str]) -> list[str]:
    """The names of folders and files in an import: the library's folder is imported as `heedmap`."""
    return ["heedmap" if part == ALIAS else part for part in parts]


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@cache
def imports(path: Path) -> set[str]:
    """Dotted names that a file imports; `from a import b` counts as `a.b`, and relative imports are resolved."""
    found = set()
    package = imported_as(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def imported_modules(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Module -> those of the same paths that it imports, by dotted names."""
    names = {name_of(path): path for path in paths}

    def module(imported: str) -> str:
        """The module that a name lies in: itself, or what is before its last dot."""
        return imported if imported in names else imported.rpartition(".")[0]

    return {name: {module(one) for one in imports(path)} & names.keys() - {name} for name, path in names.items()}


def sources(*places: str) -> list[Path]:
    return [path for path in PYTHON if any(within(name_of(path), place.removesuffix(".py")) for place in places)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(name: str, floors: Mapping[str, int]) -> str | None:
    """The innermost room that a dotted name lies in; None for what is not ours."""
    parts = name.split(".")
    inside = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((ANNEXES.get(room, room) for room in inside if room in floors or room in ANNEXES), None)


def wrong_ways(path: Path) -> list[str]:
    """Imports of a file that do not lead down."""
    here = name_of(path)
    assert room_of(here, HOUSE) is not None, f"{relative(path)} stands in no room of FLOORS"
    found = []
    for name in sorted(imports(path)):
        for floors in (HOUSE, CHECKPOINT):
            room, other = room_of(here, floors), room_of(name, floors)
            if room in floors and other in floors and room != other and floors[other] >= floors[room]:
                found.append(f"{relative(path)} ({room}) imports {name} ({other})")
        if any(within(here, place) and any(within(name, no) for no in never) for place, never in NEVER.items()):
            found.append(f"{relative(path)} imports {name}")
    return found
