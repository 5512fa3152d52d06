"""What the machine has left: memory, open files, and what to say where something has run out."""

import errno
import gc
import os
from pathlib import Path

from transformer.messages import Message
from transformer.runs.memory import trim

try:
    import resource
except ImportError:  # Windows, which has no limit of open files
    resource = None  # type: ignore[assignment]

MOST_FILES = 65_536
"""Files and connections that the server asks the system for."""

OF_A_READER = 4
"""What Streamlit opens for a connection: the connection, and an event loop."""

OF_THE_SERVER = 512
"""What is open besides: its own files, and 3 for each of the 128 sessions that Streamlit remembers."""

_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FILES = {errno.EMFILE, errno.ENFILE}


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


def limit() -> int:
    """Files and connections that may be open."""
    if resource is None:
        return MOST_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def raised() -> int:
    """The limit, raised as far as the system and `MOST_FILES` let: a process starts with 1,024, for 250 readers."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return limit()


def readers() -> int:
    """Connections of readers for which there are enough files, so that those who are served stay so."""
    return (limit() - min(OF_THE_SERVER, limit() // 2)) // OF_A_READER


def shortage(error: BaseException) -> Message | None:
    """What has run out where this error came; None for an error of another kind."""
    number = error.errno if isinstance(error, OSError) else None
    if number in _SPACE:
        return Message("server_no_space")
    return Message("server_no_files") if number in _FILES else None
