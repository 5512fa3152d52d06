"""The library as a package: what it asks for, and that it runs where nothing else is installed."""

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.reading_docs import MODEL, blocks

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


FILES = sorted(path.name for path in ROOT.glob("requirements*.txt"))


def lines_of(name: str) -> list[str]:
    """The requirements of a file, in order, without those of files that it includes."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "#-"]


def required(name: str) -> set[str]:
    return set(lines_of(name))


def test_no_distribution_is_asked_for_twice() -> None:
    asked = [canonicalize_name(Requirement(line).name) for name in FILES for line in lines_of(name)]
    assert len(asked) == len(set(asked))
    extras = [canonicalize_name(Requirement(line).name) for lines in EXTRAS.values() for line in lines]
    named = [*(canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]), *extras]
    assert len(named) == len(set(named))


def test_the_container_installs_locked_versions_of_what_is_required() -> None:
    """Each with hashes, and from no index of its own."""
    text = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    entry = r"^([A-Za-z0-9_.-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
    entries = re.findall(entry, text, re.MULTILINE)
    locked = {canonicalize_name(name): version for name, version, _ in entries}
    assert len(locked) == len(re.findall("==", re.sub("(?m)^#.*", "", re.sub("(?m) ; .*", "", text))))
    assert "://" not in text
    for line in required("requirements.txt"):
        one = Requirement(line)
        assert one.specifier.contains(locked[canonicalize_name(one.name)]), line


def test_requirements_and_extras_ask_for_the_same() -> None:
    app = {*PROJECT["dependencies"], *EXTRAS["app"], *EXTRAS["train"], *EXTRAS["atlas"]}
    pinned = {re.sub(r"^torch==.*", "torch>=2.13,<3", line) for line in required("requirements.txt")}
    assert app == pinned
    assert set(EXTRAS["cluster"]) == required("requirements-cluster.txt")
    assert set(EXTRAS["huggingface"]) == required("requirements-hf.txt")
    assert set(EXTRAS["docs"]) == required("requirements-docs.txt")
    assert set(EXTRAS["dev"]) == required("requirements-dev.txt")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that nothing that an older build left behind gets into it."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "transformer", source / "transformer", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source]
    subprocess.run(command, check=True, timeout=300)
    (built,) = folder.glob("heedmap-*.whl")
    return built


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


def test_the_library_runs_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    """The code of the README and of the page about the library, in a fresh environment without the dashboard.

    What it asks for is linked to, not installed a second time.
    """
    venv.create(tmp_path / "fresh", with_pip=False)
    python = tmp_path / "fresh" / "bin" / "python"
    (site,) = tmp_path.glob("fresh/lib/python*/site-packages")
    asked = [Requirement(line) for line in PROJECT["dependencies"]]
    for name in closure(*(one.name for one in asked)):
        link(name, site)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel]
    subprocess.run(install, check=True, timeout=300)
    code = [MODEL, *blocks(ROOT / "README.md", "python"), *blocks(ROOT / "docs" / "library.md", "python")]
    assert len(code) > 5
    absent = "import importlib.util\nassert importlib.util.find_spec('streamlit') is None\n"
    installed = "import transformer\nassert 'site-packages' in transformer.__file__, transformer.__file__\n"
    drawn = "from transformer.plots.canvas.page import Page\n"
    drawn += "assert 'showRecord' in Page('', [], [], {}, {}).document()\n"
    notebook = tmp_path / "notebook.py"
    notebook.write_text(absent + installed + drawn + "\n".join(code))
    for folder in ("checkpoints", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    ran = subprocess.run([python, notebook], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
