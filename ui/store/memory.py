"""Memory that nothing uses any more, given back at once rather than some day."""

import ctypes
import gc
from functools import cache
from typing import Any


def give_back() -> None:
    """Collect garbage, and return what the allocator holds of it to the system where it can be told to (glibc).

    Models are cycles, no run collects (`runner.postScriptGC`), and tensors of a few megabytes come from heaps that
    glibc keeps. Takes about 0.2 s, in which every session waits: it is for the few moments when much is let go.
    """
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """The C library's malloc_trim; None where there is none."""
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no C library is found under no name, as on Windows
        return None
