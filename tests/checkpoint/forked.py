"""Work in a process of its own, with bounds: what it wrote, and how it ended."""

import os
import resource
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

MEMORY_BYTES = 1024**3
"""What a process may take beside what it has, which is more the more tests ran before in the one that forks it."""

MOST_TRACE = 3000


def in_a_process(work: Callable[[], bytes], seconds: int) -> tuple[int, bytes]:
    """What `work` gives, and the status that `os.waitpid` says; of a failure its traceback, and a status of 1.

    The process ends after `seconds` even while one instruction never lets go of the interpreter.
    """
    seen, told = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(seen)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            bound_memory()
            found = work()
            status = 0
        except BaseException:  # noqa: BLE001  (whatever it is, it is told)
            found = traceback.format_exc()[-MOST_TRACE:].encode(errors="replace")
        finally:
            os.write(told, found[:60_000])
            os._exit(status)
    os.close(told)
    with os.fdopen(seen, "rb") as pipe:
        data = pipe.read()
    return os.waitpid(child, 0)[1], data


def bound_memory() -> None:
    """Let this process take `MEMORY_BYTES` more than it has, for good."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
