"""Mutations that the tests must notice: `python -m tests.mutants [WORD ...]`.

Each entry of mutants.toml breaks one line on purpose. The project is copied, the line is broken there, and the tests
that the entry stands under run: they must fail. Words choose the entries whose name or file holds one of them. Ends
with status 1 where a mutation survives, or no longer applies.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.imports import FILES, ROOT

LIST = Path(__file__).with_name("mutants.toml")
SECONDS = 600


@dataclass(frozen=True)
class Mutant:
    """One mutation: `before` stands once in `file`, `after` takes its place, and one of the tests must then fail.

    `tests` is a file or a test of pytest, or a file of Node.js where it ends in .js.
    """

    name: str
    file: str
    before: str
    after: str
    tests: str

    def command(self) -> list[str]:
        """What runs its tests."""
        if self.tests.endswith(".js"):
            return [str(Path(sys.executable).with_name("node")), "--test", self.tests]
        return [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", self.tests]

    def broken(self, text: str) -> str:
        """The file's text with the mutation.

        Raises:
            ValueError: what it replaces is not there, or more than once.
        """
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: {self.file} holds {text.count(self.before)} times {self.before!r}")
        return text.replace(self.before, self.after)


def mutants() -> tuple[Mutant, ...]:
    """Every entry of the list."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return tuple(
        Mutant(name, file, before, after, tests)
        for tests, entries in listed.items()
        for name, (file, before, after) in entries.items()
    )


def main(chosen: list[str]) -> int:
    """Run the list, or the entries that the words choose; returns the exit status."""
    wanted = [m for m in mutants() if not chosen or any(word in m.name or word in m.file for word in chosen)]
    alive = 0
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "project"
        for file in FILES:
            target = copy / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        for mutant in wanted:
            broken = copy / mutant.file
            text = broken.read_text(encoding="utf-8")
            broken.write_text(mutant.broken(text), encoding="utf-8")
            try:
                ran = subprocess.run(mutant.command(), cwd=copy, capture_output=True, check=False, timeout=SECONDS)
                survived = ran.returncode == 0
            except subprocess.TimeoutExpired:
                survived = False
            broken.write_text(text, encoding="utf-8")
            alive += survived
            print(f"{'SURVIVED' if survived else 'killed'}  {mutant.name}  ({mutant.file})", flush=True)
    print(f"{len(wanted)} mutants, {alive} survived")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
