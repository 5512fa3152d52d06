"""The second chance: for what passes alone and nowhere else, and for few. And what a run that is killed leaves."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzzing import is_gone
from tests.once_more import ROOT, main, refusal
from tests.waiting import until

ONCE = """
from pathlib import Path
def test_fails_once():
    marker = Path(__file__).with_suffix(".ran")
    ran = marker.exists()
    marker.touch()
    assert ran
def test_is_right():
    assert 1
"""
BROKEN = "def test_is_broken():\n    assert 0\n"


def run_of(root: Path, **files: str) -> None:
    """A first run of these tests, each file's path with `__` for a slash."""
    for name, text in files.items():
        path = root / "tests" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "tests"], cwd=root, check=False)


def test_what_passes_alone_is_named_in_the_last_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, browser__test_x=ONCE)
    assert main(tmp_path, ask_only=True) == 0
    assert main(tmp_path) == 0
    said = capfd.readouterr().out
    assert "2 passed" in said
    *_, named, count = said.splitlines()
    assert named.startswith("UNSTABLE tests/browser/test_x.py::test_fails_once")
    assert count == "UNSTABLE tests: 1"


def test_what_fails_twice_is_broken_and_so_is_a_neighbour_that_fails_then(tmp_path: Path) -> None:
    run_of(tmp_path, pages__test_x=BROKEN + ONCE)
    assert main(tmp_path, ask_only=True) == 0
    assert main(tmp_path) == 1


def test_an_exact_test_and_five_at_once_have_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_of(tmp_path, safe__test_x=ONCE)
    assert (main(tmp_path, ask_only=True), main(tmp_path)) == (1, 1)
    assert "nothing but the code decides tests/safe/test_x.py::test_fails_once" in capfd.readouterr().out
    heap = [f"tests/browser/test_{i}.py::test_it" for i in range(5)]
    assert refusal(heap) == "5 tests of 5 files failed: more than 3 of 2 are no chance"
    assert refusal(heap[:3]) == "3 tests of 3 files failed: more than 3 of 2 are no chance"
    assert refusal(heap[:2]) is None
    assert refusal([]) == "the run failed, and names no test"


def test_a_run_that_failed_nowhere_needs_none(tmp_path: Path) -> None:
    assert main(tmp_path) == 0


STARTED = """
import sys
from pathlib import Path
from tests.deploying import launched
print(launched([sys.executable, "-c", "input()"], Path(sys.argv[1]), stdin=0).pid, flush=True)
input()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_run_started_ends_with_it_however_that_ends(how: signal.Signals, tmp_path: Path) -> None:
    command, pipe = [sys.executable, "-c", STARTED, str(tmp_path / "log")], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as run:
        assert run.stdout
        started = int(run.stdout.readline())
        assert not is_gone(started)
        run.send_signal(how)
        run.wait()
        until(is_gone, started)
