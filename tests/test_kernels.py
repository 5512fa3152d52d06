"""What holds on every processor: tests marked `kernels` run once more for each set of kernels that this machine knows.

The last bits of a sum depend on the order in which it is added, and each processor's kernels have one of their own.
Bits are equal where the same operations run on the same shapes.
"""

import os
import subprocess
import sys

import pytest

from tests.imports import ROOT

OTHERS = (
    {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"},
    {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AUTO", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
)
"""PyTorch's own kernels and those of its matrix library (MKL) are chosen apart, so one run tries one of each: no
vectors, and sums in the order of all processors; then what both do on processors without the longest vectors."""

MARK = "pytest.mark." + "kernels"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", OTHERS, ids=str)
def test_what_is_marked_holds_on_other_kernels(setting: dict[str, str]) -> None:
    marked = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if MARK in path.read_text("utf-8")]
    dropped = {name for one in OTHERS for name in one} | {name for name in os.environ if name.startswith("PYTEST")}
    environment = {name: value for name, value in os.environ.items() if name not in dropped} | setting
    command = [sys.executable, "-m", "pytest", "-q", "-m", "kernels", "-p", "no:cacheprovider", *marked]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
