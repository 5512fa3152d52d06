"""The README and the documentation: code runs, links lead somewhere, commands exist, tables are what was measured."""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import heedmap
from docs import run_notebooks
from heedmap.__main__ import parser
from tests.imports import ROOT
from tests.reading_docs import PAGES, anchors, blocks, notebook_names, without_code
from tools.train.__main__ import parser as training

GUIDE = ROOT / "docs" / "guide" / "sequences.md"
"""Its code reads a file of the reader: tests/sequences/test_hits.py writes one, and runs it."""

RUN = [page for page in PAGES if blocks(page, "python") and page != GUIDE]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NUMBER = r"-?\d+(?:\.\d+)?"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_python_of_a_page_runs_from_its_first_line_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of its own: what it writes is not left in the repository."""
    for name in ("checkpoints", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    names = notebook_names()
    for block in blocks(page, "python"):
        exec(compile(block, name_of(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_of_a_page_lead_somewhere(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            missing.append(target)
    assert missing == []


def commands(page: Path) -> Iterator[list[str]]:
    """The lines of a page's shell code, split; a line that ends in a backslash goes on."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


PARSERS = {"heedmap": parser, "tools.train": training}
"""The programs whose commands pages name."""


def known_options(words: list[str]) -> set[str]:
    """The options of the command that the words name, the program first."""
    found: argparse.ArgumentParser = PARSERS[words[0]]()
    for word in words[1:]:
        choices = [one.choices for one in found._actions if isinstance(one, argparse._SubParsersAction)]
        if not choices:
            break
        assert choices[0] is not None
        assert word in choices[0], word
        found = choices[0][word]
    return set(found._option_string_actions)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for words in commands(page):
        if words[:2] == ["python", "-m"] and words[2] in PARSERS:
            assert {word for word in words if word.startswith("--")} <= known_options(words[2:]), words
    text = page.read_text(encoding="utf-8")
    for program, its_parser in PARSERS.items():
        said = set(re.findall(rf"`python -m {program} ([a-z-]+)", text))
        assert said <= set(its_parser()._subparsers._group_actions[0].choices) | {"--help"}
    for module in set(re.findall(r"python -m ((?:tests|benchmarks|docs|tools)(?:\.\w+)*)", text)):
        file = ROOT / module.replace(".", "/")
        assert file.with_suffix(".py").exists() or (file / "__main__.py").exists(), module


def test_make_targets_of_pages_exist() -> None:
    said = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"run", "test", "docs"} <= said
    assert [target for target in said if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)] == []


def test_the_table_of_commands_names_all_of_them() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"\| command .*?\n\n", page, re.DOTALL)
    named = {word.split()[0] for word in re.findall(r"`([a-z_ -]+)`", rows)}
    assert named == set(parser()._subparsers._group_actions[0].choices)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_the_outputs_that_it_holds(path: Path) -> None:
    """Text, word by word, and numbers but for rounding; a picture is there."""
    kept, now = json.loads(path.read_text(encoding="utf-8")), run_notebooks.run(path)
    texts = []
    for notebook in (kept, now):
        shown = [one for cell in notebook["cells"] for one in cell.get("outputs", [])]
        texts.append("\n".join("".join(one.get("text") or one["data"]["text/plain"]) for one in shown))
    assert texts[0]
    words = [re.sub(rf"{NUMBER}|\s+|-+", " ", text).split() for text in texts]
    assert words[0] == words[1]
    numbers = [[float(number) for number in re.findall(NUMBER, text)] for text in texts]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.02)
    assert path.stat().st_size < 60_000


def test_the_site_is_built_without_a_warning_and_its_reference_names_all_that_is_public(tmp_path: Path) -> None:
    library = tmp_path / "heedmap"  # as an installed package has it
    library.mkdir()
    for path in [ROOT / "heedmap" / "__init__.py", *(ROOT / "transformer").glob("[!_]*")]:
        (library / path.name).symlink_to(path)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    variables = {**os.environ, "LIBRARY": str(tmp_path)}
    built = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=600)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    missing = [name for name in heedmap.__all__ if not re.search(rf'id="heedmap\.(\w+\.)*{name}"', page)]
    assert not missing
