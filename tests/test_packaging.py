"""The library as a package: what it asks for, and that it runs where nothing else is installed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from playwright.sync_api import Browser

from tests.deploying import free_port, launched
from tests.imports import FILES, ROOT, relative
from tests.reading_docs import MODEL, blocks, notebook_names
from tests.waiting import PATIENCE, until

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENTS = sorted(path.name for path in ROOT.glob("requirements*.txt"))


def lines_of(name: str) -> list[str]:
    """The requirements of a file, in order, without those of files that it includes."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "#-"]


def test_no_distribution_is_asked_for_twice() -> None:
    asked = [canonicalize_name(Requirement(line).name) for name in REQUIREMENTS for line in lines_of(name)]
    assert len(asked) == len(set(asked))


def test_the_container_installs_locked_versions_of_what_is_required() -> None:
    """Each with hashes, and from no index of its own."""
    text = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    entry = r"^([A-Za-z0-9_.-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
    entries = re.findall(entry, text, re.MULTILINE)
    locked = {canonicalize_name(name): version for name, version, _ in entries}
    assert len(locked) == len(re.findall("==", re.sub("(?m)^#.*", "", re.sub("(?m) ; .*", "", text))))
    assert "://" not in text
    for line in lines_of("requirements.txt"):
        one = Requirement(line)
        assert one.specifier.contains(locked[canonicalize_name(one.name)]), line


def test_requirements_and_extras_ask_for_the_same() -> None:
    """The dashboard is tested with this year's releases; what the library needs has wider ranges, which hold them."""
    wide = {one.name: one for one in map(Requirement, PROJECT["dependencies"])}
    assert wide.keys() == {"torch", "numpy", "safetensors", "jaxtyping", "tqdm"}
    pinned = {Requirement(line).name: line for line in lines_of("requirements.txt")}
    app = {Requirement(line).name: line for line in [*EXTRAS["app"], *EXTRAS["bleu"]]}
    assert {**app, **{name: pinned[name] for name in wide}} == pinned
    for one in [*wide.values(), *(Requirement(line) for extra in ("text", "plots", "atlas") for line in EXTRAS[extra])]:
        assert one.name in pinned
        assert one.specifier.contains(metadata.version(one.name)), one
    for extra, file in (("huggingface", "hf"), ("docs", "docs"), ("dev", "dev")):
        assert set(EXTRAS[extra]) == set(lines_of(f"requirements-{file}.txt"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that nothing that an older build left behind gets into it."""
    source, folder = tmp_path_factory.mktemp("source") / "project", tmp_path_factory.mktemp("wheel")
    needed = shutil.ignore_patterns("__pycache__", ".*_cache", ".git", ".venv", "node_modules", "tests", "docs", "site")
    shutil.copytree(ROOT, source, ignore=needed)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source]
    subprocess.run(command, check=True, timeout=600)
    (built,) = folder.glob("heedmap-*.whl")
    return built


def test_the_wheel_has_one_package_its_alias_and_the_default_checkpoints(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        sizes = {entry.filename: entry.file_size for entry in opened.infolist()}
    assert {name.partition("/")[0] for name in sizes if ".dist-info/" not in name} == {"heedmap", "transformer.py"}
    shipped = {name: size for name, size in sizes.items() if name.startswith("heedmap/dashboard/checkpoints/")}
    assert "heedmap/dashboard/checkpoints/multi30k-en-de/model.safetensors" in shipped
    assert sum(shipped.values()) <= 15e6
    ours = {name for name in sizes if not name.startswith("heedmap/dashboard/") and ".dist-info/" not in name}
    below = {relative(path) for path in FILES if path.is_relative_to(ROOT / "transformer")}
    library = {name.replace("transformer/", "heedmap/", 1) for name in below}
    assert ours == library | {"transformer.py"}
    beside = {name.removeprefix("heedmap/dashboard/") for name in sizes if name.startswith("heedmap/dashboard/")}
    assert beside <= set(map(relative, FILES))
    cards = {name.partition("/licenses/")[2] for name in sizes if "/licenses/" in name}
    assert cards == {"LICENSE", *(relative(path) for path in FILES if path.match("checkpoints/*/CARD.md"))}


def closure(*names: str) -> set[str]:
    """The distributions of those names and all that they ask for here, without extras."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found.add(name)
            asked = [Requirement(line) for line in metadata.requires(name) or ()]
            waiting += [one.name for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def link(distribution: str, site: Path) -> None:
    """Let an environment have a distribution of this one, by links to what it put into the top folder."""
    for file in metadata.files(distribution) or ():
        top = file.parts[0]
        if top not in {"..", "__pycache__"} and not (site / top).exists():
            (site / top).symlink_to(metadata.distribution(distribution).locate_file(top))


def installed(wheel: Path, folder: Path, asked: Iterable[str]) -> Path:
    """A fresh environment's folder of programs, with the wheel and distributions that it asks for.

    These are linked to, not installed a second time.
    """
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in closure(*(Requirement(line).name for line in asked)):
        link(name, site)
    command = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-deps"]
    subprocess.run([*command, wheel], check=True, timeout=600)
    return folder / "bin"


def run_in(folder: Path, *command: Path | str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600, input=typed)


def test_the_library_runs_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    """The code of the README, in a fresh environment without the dashboard."""
    programs = installed(wheel, tmp_path / "fresh", PROJECT["dependencies"])
    code = [MODEL, *blocks(ROOT / "README.md", "python")]
    assert len(code) > 1
    absent = "import importlib.util\nassert importlib.util.find_spec('streamlit') is None\n"
    here = "import heedmap, transformer\nassert 'site-packages' in heedmap.__file__, heedmap.__file__\n"
    here += "assert transformer is heedmap\n"
    drawn = "from heedmap.attention.notebook import Page\n"
    drawn += "assert len(Page('', b'').document()) > 50_000, 'without the scripts'\n"
    extra = "try:\n    seen.record(queries=tokens, keys=tokens).measures()\n"
    extra += (
        "except heedmap.InputError as error:\n    assert 'pandas' in str(error) and '[plots]' in str(error), error\n"
    )
    extra += "else:\n    raise SystemExit('pandas is installed')\n"
    notebook = tmp_path / "notebook.py"
    notebook.write_text(absent + here + drawn + "\n".join(code) + "\n" + extra)
    for folder in ("checkpoints", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    ran = run_in(tmp_path, programs / "python", notebook)
    assert ran.returncode == 0, ran.stderr
    for words, needed in ((), "heedmap[app]"), (("translate", "multi30k-en-de"), "sentencepiece"):
        refused = run_in(tmp_path, programs / "heedmap", *words)
        assert refused.returncode == 2
        assert needed in refused.stderr
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "transformer.py").write_text("mine = 1\n")
    beside = "import transformer, heedmap\nassert transformer.mine == 1\nassert heedmap.recording"
    both = run_in(theirs, programs / "python", "-c", beside)
    assert both.returncode == 0, both.stderr


@pytest.mark.browser
def test_the_installed_dashboard_opens_a_record_from_an_empty_folder(
    wheel: Path, tmp_path: Path, browser: Browser
) -> None:
    programs = installed(wheel, tmp_path / "fresh", [*PROJECT["dependencies"], *EXTRAS["app"]])
    empty = tmp_path / "empty"
    empty.mkdir()
    sentence = "Two dogs are playing in the snow."
    translated = run_in(empty, programs / "heedmap", "translate", "multi30k-en-de", "--quiet", typed=sentence)
    assert translated.stdout == "Zwei Hunde spielen im Schnee.\n", translated.stderr
    names: dict[str, Any] = {**notebook_names()}
    exec("from heedmap import recording\nwith recording(my_model) as seen:\n    my_model(x)", names)
    names["seen"].record(queries=names["tokens"], keys=names["tokens"]).save(tmp_path / "run.heedmap")
    port = free_port()
    # The browser that it opens is a program that writes down the address.
    opener = tmp_path / "opener"
    opener.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/part && mv {tmp_path}/part {tmp_path}/opened\n')
    opener.chmod(0o755)
    command = [programs / "heedmap", "open", tmp_path / "run.heedmap", "--port", str(port)]
    environment = {**os.environ, "BROWSER": f"{opener} %s", "PYTHONPATH": ""}
    server = launched(command, tmp_path / "log", cwd=empty, env=environment)
    try:
        until(lambda: (tmp_path / "opened").exists() or server.poll() is not None)
        page = browser.new_page()
        page.goto((tmp_path / "opened").read_text().strip())
        page.get_by_text("2 sites · 8 heads").wait_for(timeout=PATIENCE * 1_000)
        page.close()
    finally:
        server.terminate()
        assert server.wait(timeout=PATIENCE) == 128 + signal.SIGTERM
    assert list(empty.iterdir()) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "the server lives on"
