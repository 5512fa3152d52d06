"""The scripts that the browser gets: built from today's modules, complete, and with no door for markup."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import ROOT
from ui.components.shared.bundle import ALL, BUILT, script

CANVAS = ROOT / "transformer" / "plots" / "canvas"
COMPONENTS = ROOT / "ui" / "components"
MODULES = sorted(path for room in (CANVAS, COMPONENTS) for path in room.rglob("*.js") if path.parent.name != "built")
STYLES = sorted(path for room in (CANVAS, COMPONENTS) for path in room.rglob("*.css"))


def test_the_built_scripts_are_those_of_the_modules(tmp_path: Path) -> None:
    """`make scripts` changes nothing: who changes a module calls it, and commits what it builds."""
    for room in (CANVAS, COMPONENTS):
        shutil.copytree(room, tmp_path / room.relative_to(ROOT), ignore=shutil.ignore_patterns("built", "*.py"))
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "node_modules").symlink_to((ROOT / "node_modules").resolve())
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["npm", "run", "--silent", "bundle"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": programs}, check=True, timeout=120)
    for room in (CANVAS, COMPONENTS):
        built = {path.name: path.read_bytes() for path in (room / "built").iterdir()}
        assert built == {
            path.name: path.read_bytes() for path in (tmp_path / room.relative_to(ROOT) / "built").iterdir()
        }


def test_every_component_is_brought_under_its_name() -> None:
    folders = {path.parent.name for path in COMPONENTS.glob("*/component.py")}
    entry = (COMPONENTS / "all.js").read_text(encoding="utf-8")
    (drawn,) = re.findall(r"const DRAWN = \{(.*?)\};", entry, re.DOTALL)
    assert {line.strip(" ,").partition(":")[0] for line in drawn.strip().splitlines()} == folders


@pytest.mark.parametrize(
    "path", sorted([*BUILT.glob("*.js"), *(CANVAS / "built").glob("*.js")]), ids=lambda one: one.name
)
def test_a_built_script_needs_nothing_from_outside(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?:^|;)import\b|\bimport\(|\brequire\(", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "sourceMappingURL" not in text, "a header names the map"


def test_what_travels_with_numbers_is_short() -> None:
    assert max(len(script("mount.js")), len(script("options.js"))) < 400
    assert 50_000 < len(script(ALL)) < 200_000


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_text_never_becomes_markup_or_code(path: Path) -> None:
    dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\("
    assert not re.search(dangerous, path.read_text(encoding="utf-8"))


def test_the_styles_fetch_nothing() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in STYLES)
    assert "url(" not in text
    assert "@import" not in text
