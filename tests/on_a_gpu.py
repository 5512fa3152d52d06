"""What a GPU says, against what the CPU says, for every shipped checkpoint: `make test-gpu`, on a machine with one.

No test of the usual run, which needs no GPU, is skipped for want of one: this file is not among them.
"""

import sys

import pytest
import torch

from heedmap import load
from tests.runs.test_devices import CHECKPOINTS, Said, distances, long_look, said_by

BOUNDS = {torch.float32: (5e-3, 5e-3), torch.float16: (6e-3, 1e-2), torch.bfloat16: (4e-2, 6e-2)}
"""How far weights and probabilities may lie from the CPU's in single precision. In single precision convolutions may
use TF32, whose products have 10 bits."""


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Refuse to pretend."""
    if not torch.cuda.is_available():
        pytest.exit("PyTorch finds no GPU here, and these tests compare one with the CPU", returncode=2)


@pytest.fixture(scope="module", params=sorted(path.name for path in CHECKPOINTS.iterdir()))
def usual(request: pytest.FixtureRequest) -> tuple[str, Said]:
    """A checkpoint's name, and what the CPU says."""
    return request.param, said_by(load(CHECKPOINTS / request.param))


def near(what: str, dtype: torch.dtype, one: Said, other: Said) -> None:
    """What is said lies within the bounds of a precision; pytest -s shows the distances."""
    maps, probabilities = distances(one, other)
    said = f"{what}, {dtype}: weights differ by at most {maps:.1e}, probabilities by {probabilities:.1e}"
    sys.stderr.write(said + "\n")
    assert maps < BOUNDS[dtype][0], said
    assert probabilities < BOUNDS[dtype][1], said


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_a_gpu_says_what_the_cpu_says(usual: tuple[str, Said], dtype: torch.dtype) -> None:
    name, one = usual
    checkpoint = load(CHECKPOINTS / name, device="auto", dtype=dtype)
    assert checkpoint.device.type == "cuda"
    near(name, dtype, one, said_by(checkpoint, one[0] or None))


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_a_long_run_on_a_gpu_is_followed_and_seen_near_and_far(dtype: torch.dtype) -> None:
    """What the page does with a long sequence: the pace is measured, the pass followed, a head kept in levels."""
    folder = CHECKPOINTS / "splice-junctions"
    near("a long run", dtype, long_look(load(folder)), long_look(load(folder, device="auto", dtype=dtype)))
