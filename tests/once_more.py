"""One second chance for few failed tests, alone: after all else has ended, their files run again in one process.

`python -m tests.once_more may` says whether what failed may have it, `python -m tests.once_more` gives it. What passes
then was unstable, is named in the last lines, and is a fault of the test or a race of the product; what fails twice is
broken. The whole file runs again: the order within it is part of what its tests test, and its servers are new ones.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAILED = Path(".pytest_cache", "v", "cache", "lastfailed")

TESTS, FILES = 3, 2
"""How many may have failed, and in how many files: chance does not fail in heaps."""

MAY = (
    *("browser/", "pages/", "ui/", "checkpoint/worker/", "runs/test_slots.py", "test_load.py"),
    *("test_hostile_uploads.py", "test_deploy.py", "test_packaging.py", "test_once_more.py"),
)
"""Where a browser, a server, a process or a thread answers when it can; elsewhere the same code gives the same."""


def failed(root: Path) -> list[str]:
    """The tests that failed in the last run, and those whose fixtures did."""
    file = root / FAILED
    return sorted(json.loads(file.read_text("utf-8"))) if file.exists() else []


def files_of(names: list[str]) -> list[str]:
    """The files of some tests."""
    return sorted({name.partition("::")[0] for name in names})


def refusal(names: list[str]) -> str | None:
    """Why these get no second chance; None if they do."""
    if not names:
        return "the run failed, and names no test"
    if exact := [name for name in names if not name.removeprefix("tests/").startswith(MAY)]:
        return f"nothing but the code decides {exact[0]}"
    if len(names) > TESTS or len(files_of(names)) > FILES:
        return f"{len(names)} tests of {len(files_of(names))} files failed: more than {TESTS} of {FILES} are no chance"
    return None


def main(root: Path = ROOT, ask_only: bool = False) -> int:
    """0 if nothing failed, or if all that failed passes alone."""
    names = failed(root)
    if ask_only or (names and refusal(names)):
        why = refusal(names)
        sys.stdout.write(f"No second chance: {why}.\n" if why else "")
        return int(why is not None)
    if not names:
        return 0
    sys.stdout.write(f"{len(names)} failed among others; their files run once more, alone.\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files_of(names)]
    if again := subprocess.run(command, cwd=root, check=False).returncode:
        return again
    for name in names:
        sys.stdout.write(f"UNSTABLE {name}: failed among others, passed alone; its first failure stands above\n")
    sys.stdout.write(f"UNSTABLE tests: {len(names)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(ask_only=sys.argv[1:] == ["may"]))
