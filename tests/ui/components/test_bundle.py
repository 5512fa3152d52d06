"""The scripts that the browser gets: one module each, complete, and with no door for markup."""

import re

import pytest

from ui.components.shared.bundle import HERE, script, stylesheet

ENTRIES = sorted(path.name for path in HERE.glob("*.js") if "export default" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_needs_nothing_from_outside(entry):
    text = script(entry)
    assert not re.search(r"^import\b", text, re.MULTILINE)
    assert re.findall(r"^export .*?(?=\(|\{)", text, re.MULTILINE) == ["export default function "]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_a_module_that_two_others_import_is_there_once():
    text = script("head_view.js")
    assert len(re.findall("const module_page = ", text)) == 1
    assert text.index("const module_page = ") < text.index("const module_tokens = ")


def test_every_module_is_used():
    used = {f"{name}.js" for entry in ENTRIES for name in re.findall(r"const module_(\w+) = ", script(entry))}
    assert used | set(ENTRIES) == {path.name for path in HERE.glob("*.js")}


@pytest.mark.parametrize("path", sorted(HERE.glob("*.js")), ids=lambda path: path.name)
def test_text_never_becomes_markup_or_code(path):
    dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\("
    assert not re.search(dangerous, path.read_text(encoding="utf-8"))


def test_the_style_fetches_nothing():
    assert "url(" not in stylesheet()
    assert "@import" not in stylesheet()
