"""Memory that nothing uses any more, given back at once rather than some day."""

import gc
import os
from pathlib import Path

from transformer.runs.memory import trim

__all__ = ["give_back", "resident", "trim"]


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
