"""What the server may take: what whoever serves has set, and what the machine gives and has left."""

import argparse
import errno
import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from heedmap.errors import CheckpointError
from heedmap.messages import Message
from heedmap.runs.memory import trim
from heedmap.safe.limits import MEGABYTE

try:
    import resource
except ImportError:  # Windows, which has no limit of open files
    resource = None  # type: ignore[assignment]

UPLOAD, SESSION, SERVER = "HEEDMAP_UPLOAD_MB", "HEEDMAP_SESSION_MB", "HEEDMAP_SERVER_MB"
MEGABYTES: Mapping[str, int] = {
    "HEEDMAP_CACHE_MB": 1024,  # results that are kept, of all sessions together
    "HEEDMAP_MODELS_MB": 2048,  # checkpoints that are kept ready to run; the one in use stays, whatever its size
    "HEEDMAP_RUN_MB": 1024,  # one run at its peak; its record has to fit among the kept results as well
    UPLOAD: 200,  # one upload
    SESSION: 400,  # what a session may upload and hold
    SERVER: 2048,  # what all sessions may upload and hold together
}
"""Environment variables that are a number of megabytes, with their defaults."""

DEVICE, DTYPE = "HEEDMAP_DEVICE", "HEEDMAP_DTYPE"
"""Where long runs are computed (`auto`: a GPU where there is one, else the CPU; or `cpu`, `cuda`, `cuda:1`), and in
which precision (one of `DTYPES`)."""

DTYPES = ("float32", "float16", "bfloat16", "float64")
"""Precisions of long runs; the first one is that of the checkpoints as they are loaded."""

MOST_FILES = 65_536
"""Files and connections that the server asks the system for."""

OF_A_READER = 4
"""What Streamlit opens for a connection: the connection, and an event loop."""

OF_THE_SERVER = 512
"""What is open besides: its own files, and 3 for each of the 128 sessions that Streamlit remembers."""

SHORTAGES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), Message("server_no_space")),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), Message("server_no_files")),
}
"""Errors of the system that say that something has run out, and the sentences for them."""


def argument(name: str) -> str:
    """What follows `--name` in the command line that the app was started with; empty without."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(f"--{name}", default="")
    given: str = vars(parser.parse_known_args(sys.argv[1:])[0])[name]
    return given


def n_bytes(name: str) -> int:
    """A bound in bytes, as set or by default.

    Raises:
        CheckpointError: what is set is no number of megabytes.
    """
    value = os.environ.get(name, str(MEGABYTES[name]))
    if not (value.isascii() and value.isdecimal() and 0 < int(value) < 10**6):
        raise CheckpointError("no_megabytes", name=name, value=value)
    return int(value) * MEGABYTE


def run_bytes() -> int:
    """The most that a run may take: what it leaves has to be kept, or every look at it would run it again."""
    return min(n_bytes("HEEDMAP_RUN_MB"), n_bytes("HEEDMAP_CACHE_MB"))


def placement() -> tuple[str, str]:
    """The device and the precision of long runs, as set or by default.

    Raises:
        CheckpointError: the precision is none of those known.
    """
    dtype = os.environ.get(DTYPE, DTYPES[0])
    if dtype not in DTYPES:
        raise CheckpointError("no_precision", name=DTYPE, value=dtype, known=DTYPES)
    return os.environ.get(DEVICE, "auto"), dtype


def give_back() -> None:
    """Collect garbage, and return what the allocator holds of it to the system where it can be told to (glibc).

    Models are cycles, and no run collects (`runner.postScriptGC`). Takes about 0.2 s, in which every session waits: it
    is for the few moments when much is let go.
    """
    gc.collect()
    trim()


def resident() -> int:
    """Bytes that this process holds in memory; 0 where the system does not say (only Linux does)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def open_files() -> int:
    """Files and connections that may be open."""
    if resource is None:
        return MOST_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def raise_open_files() -> int:
    """Raise the limit as far as the system and `MOST_FILES` let: a process starts with 1,024, for 250 readers."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return open_files()


def readers() -> int:
    """Connections of readers for which there are enough files, so that those who are served stay so."""
    return (open_files() - min(OF_THE_SERVER, open_files() // 2)) // OF_A_READER


def shortage(error: BaseException) -> Message | None:
    """What has run out where this error came; None for an error of another kind."""
    return SHORTAGES.get(error.errno or 0) if isinstance(error, OSError) else None
