"""What whoever serves the dashboard may set: environment variables, each with its default, in one place."""

from collections.abc import Mapping

from transformer.errors import CheckpointError
from transformer.safe.limits import MEGABYTE

MEGABYTES: Mapping[str, int] = {
    "HEEDMAP_CACHE_MB": 1024,  # results that are kept, of all sessions together
    "HEEDMAP_MODELS_MB": 2048,  # checkpoints that are kept ready to run; the one in use stays, whatever its size
    "HEEDMAP_RUN_MB": 1024,  # one run at its peak; its record has to fit among the kept results as well
    "HEEDMAP_UPLOAD_MB": 200,  # one upload
    "HEEDMAP_SESSION_MB": 400,  # what a session may upload and hold
    "HEEDMAP_SERVER_MB": 2048,  # what all sessions may upload and hold together
}
"""Every bound that is a number of megabytes, with its default."""


def n_bytes(environment: Mapping[str, str], name: str) -> int:
    """A bound in bytes, as set or by default.

    Raises:
        CheckpointError: what is set is no number of megabytes.
    """
    value = environment.get(name, str(MEGABYTES[name]))
    if not (value.isascii() and value.isdecimal() and 0 < int(value) < 10**6):
        raise CheckpointError("no_megabytes", name=name, value=value)
    return int(value) * MEGABYTE


def run_bytes(environment: Mapping[str, str]) -> int:
    """The most that a run may take: what it leaves has to be kept, or every look at it would run it again.

    Raises:
        CheckpointError: what is set is no number of megabytes.
    """
    return min(n_bytes(environment, "HEEDMAP_RUN_MB"), n_bytes(environment, "HEEDMAP_CACHE_MB"))


DEVICE, DTYPE = "HEEDMAP_DEVICE", "HEEDMAP_DTYPE"
"""Where long runs are computed (`auto`: a GPU where there is one, else the CPU; or `cpu`, `cuda`, `cuda:1`), and in
which precision (one of `DTYPES`)."""

DTYPES = ("float32", "float16", "bfloat16", "float64")
"""Precisions of long runs; the first one is that of the checkpoints as they are loaded."""


def placement(environment: Mapping[str, str]) -> tuple[str, str]:
    """The device and the precision of long runs, as set or by default.

    Raises:
        CheckpointError: the precision is none of those known.
    """
    dtype = environment.get(DTYPE, DTYPES[0])
    if dtype not in DTYPES:
        raise CheckpointError("no_precision", name=DTYPE, value=dtype, known=DTYPES)
    return environment.get(DEVICE, "auto"), dtype
