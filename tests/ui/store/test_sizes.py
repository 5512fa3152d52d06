"""Counted bytes are those that are held: of each kind of result, and of a server's heaps while results come and go."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def held_in(module: str, **settings: str) -> Any:
    """What a process of its own measures about itself."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **settings}
    command = [sys.executable, "-m", f"tests.ui.store.{module}"]
    return json.loads(subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE).stdout)


@pytest.fixture(scope="module")
def measured() -> dict[str, tuple[int, int]]:
    """Bytes held and bytes counted by kind; all of Python's objects come from the C library, which knows its own."""
    settings = {"PYTHONMALLOC": "malloc", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    found: dict[str, tuple[int, int]] = held_in("held_by_kind", **settings)
    return found


def test_what_is_counted_of_each_kind_of_result_is_what_it_takes(measured: dict[str, tuple[int, int]]) -> None:
    shares = {kind: held / counted for kind, (held, counted) in measured.items()}
    assert 0.5 < shares.pop("a table") < 1.2  # pandas and pyarrow both name a column's bytes
    assert len(shares) > 12
    assert not {kind: share for kind, share in shares.items() if not 0.8 < share < 1.2}


def test_memory_stays_at_what_is_counted_while_results_come_and_go() -> None:
    found = held_in("held_while_used", HEEDMAP_CACHE_MB="8")
    assert found["counted"] <= 8 * 2**20
    # 16 MB: what a run takes while it computes. With a heap for each thread 115 MB and more.
    assert found["held"] - found["counted"] < 40 * 2**20, found
