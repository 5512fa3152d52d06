"""The scripts that the browser gets: one module each, complete, and with no door for markup."""

import re

import pytest

from transformer.plots.canvas import linker
from transformer.plots.canvas.linker import CANVAS
from ui.components.shared.bundle import HERE, entry, library, script, stylesheet

SCRIPTS = sorted([*HERE.rglob("*.js"), *CANVAS.rglob("*.js")])
ENTRIES = [path for path in SCRIPTS if "export default" in path.read_text(encoding="utf-8")]
OF_PAGES = {"page", "address", "frame"}
"""Modules of pages that have no server, which components do not need."""


def modules(text):
    """The names of the modules in a linked script, in order."""
    return re.findall(r"^const module\d+_(\w+) = ", text, re.MULTILINE)


def test_every_component_has_a_script_of_its_name():
    folders = [path.parent.name for path in HERE.glob("*/component.py")]
    shared = [HERE / "shared" / f"{name}.js" for name in ("mount", "options", "record")]
    assert sorted([*map(entry, folders), *shared]) == ENTRIES


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.name)
def test_an_entry_needs_nothing_from_outside(path):
    text = linker.script(path)
    assert not re.search(r"^import\b", text, re.MULTILINE)
    assert re.findall(r"^export .*?(?=\(|\{)", text, re.MULTILINE) in (
        ["export default component"],
        ["export default function "],
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_a_module_that_two_others_import_is_there_once():
    found = modules(linker.script(entry("head_view")))
    assert found.count("page") == 1
    assert found.index("page") < found.index("tokens")


def test_a_library_brings_script_and_styles_and_draws_nothing():
    text = library("heatmap")
    assert re.findall(r"^export .*", text, re.MULTILINE) == [text.splitlines()[-1]]
    assert text.splitlines()[-1].startswith("export default () => { module")
    assert '.arrived("heedmap.heatmap", drawn_heatmap, styles)' in text.splitlines()[-1]
    assert "const drawn = component(" in text


def test_what_travels_with_numbers_is_short():
    assert max(len(script("shared/mount.js")), len(script("shared/options.js"))) < 800
    assert "//" not in script("shared/mount.js"), "comments are for readers of the file"


def test_every_module_is_used():
    used = {name for path in ENTRIES for name in modules(linker.script(path))} | set(modules(library("heatmap")))
    assert used | OF_PAGES == {path.stem for path in SCRIPTS if path not in ENTRIES}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_text_never_becomes_markup_or_code(path):
    dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\("
    assert not re.search(dangerous, path.read_text(encoding="utf-8"))


def test_the_style_fetches_nothing():
    assert "url(" not in stylesheet()
    assert "@import" not in stylesheet()
