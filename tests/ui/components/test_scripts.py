"""The scripts that the browser gets: built from today's modules, complete, no door for markup, no sentence in them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest

from heedmap.messages import LANGUAGES, catalogue, speaking
from heedmap.plots.canvas.views import sentences
from tests.imports import ROOT
from ui.components.shared.mounting import ALL, BUILT, script

CANVAS, COMPONENTS = ROOT / "transformer" / "plots" / "canvas", ROOT / "ui" / "components"
ROOMS = (CANVAS, COMPONENTS)
MODULES = sorted(path for room in ROOMS for path in room.rglob("*.js") if path.parent.name != "built")
TEXTS = {path: path.read_text("utf-8") for path in MODULES}
MOUNTED = "".join(path.read_text("utf-8") for path in COMPONENTS.rglob("*.py"))
NAMED = dict(re.findall(r'= CanvasComponent\("(\w+)"(?:, words="(\w+)")?', MOUNTED))
"""Components by name: whose words they are sent, if other ones than their own."""

SPOKEN = sorted({words or name for name, words in NAMED.items()})
COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.MULTILINE | re.DOTALL)
SHARED = {code.removeprefix("canvas_") for code in catalogue("en") if code.startswith("canvas_")}
"""What every component is sent, though not each says all of it."""

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
KEYS = {"Enter", "Escape", "Home", "End", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"}
"""What `event.key` can be."""
FONTS = '"Latin Modern Math", "STIX Two Math", Cambria, Georgia, serif'
PLAIN = r"^import\b|throw new Error\(|^\s*\*"
"""Lines whose strings nobody reads on the page."""
SHOWN = re.compile(r'(?:textContent = |title = |"aria-label": ?|"aria-label", |say\([\w.]+, |button\()["`]([^"`]*)')
"""Strings that are shown whatever they look like."""


def test_the_built_scripts_are_those_of_the_modules(tmp_path: Path) -> None:
    """`make scripts` changes nothing: who changes a module calls it, and commits what it builds."""
    for room in ROOMS:
        shutil.copytree(room, tmp_path / room.relative_to(ROOT), ignore=shutil.ignore_patterns("built", "*.py"))
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "node_modules").symlink_to((ROOT / "node_modules").resolve())
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["npm", "run", "--silent", "bundle"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": programs}, check=True, timeout=120)
    for room in ROOMS:
        built, anew = (
            {path.name: path.read_bytes() for path in (root / room.relative_to(ROOT) / "built").iterdir()}
            for root in (ROOT, tmp_path)
        )
        assert built == anew


def test_every_component_is_brought_under_its_name_and_what_travels_with_numbers_is_short() -> None:
    (drawn,) = re.findall(r"const DRAWN = \{(.*?)\};", TEXTS[COMPONENTS / "all.js"], re.DOTALL)
    assert {line.strip(" ,").partition(":")[0] for line in drawn.strip().splitlines()} == NAMED.keys()
    assert max(len(script("mount.js")), len(script("options.js"))) < 400
    assert 50_000 < len(script(ALL)) < 200_000


@pytest.mark.parametrize(
    "path", sorted([*BUILT.glob("*.js"), *(CANVAS / "built").glob("*.js")]), ids=lambda one: one.name
)
def test_a_built_script_needs_nothing_from_outside(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?:^|;)import\b|\bimport\(|\brequire\(", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "sourceMappingURL" not in text, "a header names the map"


def test_the_styles_fetch_nothing() -> None:
    text = "".join(path.read_text("utf-8") for room in ROOMS for path in room.rglob("*.css"))
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize("component", SPOKEN)
def test_a_component_is_sent_the_sentences_that_its_scripts_declare_and_use_in_each_language(component):
    """Its module stands beside its Python, or with the views that notebooks show too."""
    beside = COMPONENTS / component / f"{component}.js"
    entry = beside if beside.is_file() else CANVAS / component / f"{component}.js"
    union = re.search(r"@property \{Record<((?:[^>]|\n)*?), string>\} words", TEXTS[entry])
    assert union
    names, english = set(re.findall(r'"(\w+)"', union[1])), sentences(component)
    assert set(english) - SHARED <= names <= set(english)
    texts = "".join(text for path, text in TEXTS.items() if path.parent == entry.parent)
    used = set(re.findall(r"\b(?:words|said)\.(\w+)", texts))
    used |= {"masked", "nan"} if "marksOf(" in texts else set()
    used |= {"picked", "example", "sources", "targets", "further"} if "words[named]" in texts else set()
    assert names - used == set()  # the type checker knows of those that are used and not declared

    def fields(text):
        return {name for _, name, _, _ in Formatter().parse(text) if name}

    with speaking("zh"):
        chinese = sentences(component)
    assert {name: fields(text) for name, text in english.items()} == {name: fields(t) for name, t in chinese.items()}
    assert (english["save_png"], chinese["save_png"]) == ("Save PNG", "保存 PNG")
    for name in english:
        codes = [f"{prefix}_{name}" for prefix in ("canvas", "decided", component)]
        code = next(code for code in codes if code in catalogue("en"))
        assert [english[name], chinese[name]] == [catalogue(language)[code] for language in LANGUAGES]


def literal_english(text):
    """The strings of a script that look like English on the page, but for class names, fonts, keys and SVG."""
    found = []
    for line in COMMENT.sub("", text).splitlines():
        if re.search(PLAIN, line):
            continue
        shown = [match[1] for match in SHOWN.finditer(line)]
        found += [one for one in shown if re.search(r"[A-Za-z]", re.sub(r"\$\{[^}]*\}?", "", one))]
        rest = re.sub(r'element\("\w+", ["`][^"`]*["`]', "", line).replace(FONTS, "")
        for match in STRING.finditer(rest):
            words = re.sub(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", " ", match[1] or match[2] or "")
            if re.search(r"[A-Za-z]{3,} [A-Za-z]{2,}|^[A-Z][a-z]+\b", words) and words not in KEYS:
                found.append(words)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_script_holds_a_sentence_and_text_never_becomes_markup_or_code(path):
    dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\("
    assert not re.search(dangerous, TEXTS[path])
    assert literal_english(TEXTS[path]) == []


def test_a_sentence_in_a_script_is_found_and_what_nobody_reads_is_none():
    for line in (
        'made.textContent = "masked";',
        'button("Save", act);',
        'const text = "There is nothing to show";',
        "const text = `mean of ${count} heads shown`;",
        'element("p", "empty", "Nothing here");',
        'element("div", "chips", null, { role: "group", "aria-label": "heads" });',
        'write("Weight, linear", 3);',
        "chip.title = `click ${name}`;",
    ):
        assert literal_english(f"  {line}\n"), line
    for line in (
        'const root = element("div", `heedmap ${className}`);',
        'if (event.key === "Escape") stop();',
        "context.font = `600 ${FONT}px ${theme.font}`;",
        "made.textContent = `${row} / ${column}`;",
        "// Save the picture\n",
        'throw new Error("a field is not given");',
    ):
        assert literal_english(f"  {line}\n") == [], line
