"""What the README and the guide to recording say runs, points at something, and repeats the newest measurements."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "docs/recording.md"])
def test_its_python_runs_from_the_first_line_to_the_last(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    notebook: dict[str, object] = {"__name__": name}
    for block in blocks:
        exec(compile(block, name, "exec"), notebook)


def test_its_links_lead_somewhere() -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)", README) if "://" not in target]
    assert targets
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing


def test_its_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_its_measurements_are_those_that_the_benchmarks_wrote() -> None:
    assert (ROOT / "benchmarks" / "results.md").read_text(encoding="utf-8").strip() in README
