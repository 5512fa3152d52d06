"""How the C library hands out memory to a process that does one thing over and over, or many things for long."""

import ctypes
import platform
from collections.abc import Mapping
from typing import Any

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8
"""Parameters of mallopt(3), as malloc.h numbers them."""

OWN_PAGES = 256 * 1024
"""Bytes from which a block of a server gets pages of its own, which the system takes back with it.

They are cleared for each new block: from 64 kB on, the translation of 120 words took a sixth more CPU.
"""

KEPT_FREE = 4 * 1024 * 1024
"""Bytes at the end of a server's heap that stay for the next run."""


def recycle_memory() -> None:
    """Let the C library keep freed memory for the next batch instead of handing it back to the system.

    The tensors of a batch are large and live briefly; without this, glibc maps and unmaps each, and the first touch
    of every page is a fault: 68,000 an update of the small translation model, and 10 to 25 % of its time. Other C
    libraries are left as they are.
    """
    _tell({M_MMAP_THRESHOLD: 2**30, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 2**28})


def share_heaps() -> None:
    """Let new threads of a server share the heaps that there are, and large blocks have pages of their own.

    glibc gives threads heaps of their own, eight a core, and keeps what is freed in them. What a cache keeps of a run
    lies between the holes that its temporary tensors left, and the next run, in another thread, cannot use them: more
    than half of all heaps were such holes (docs/deploy.md). Threads that have a heap keep it: MALLOC_ARENA_MAX=1 in the
    environment leaves one from the start. Other C libraries are left as they are.
    """
    _tell({M_ARENA_MAX: 1, M_MMAP_THRESHOLD: OWN_PAGES, M_TRIM_THRESHOLD: KEPT_FREE})


def trim() -> None:
    """Hand whole pages of freed memory back to the system. Other C libraries than glibc are left as they are."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _tell(parameters: Mapping[int, int]) -> None:
    libc = _glibc()
    if libc is not None:
        for parameter, value in parameters.items():
            libc.mallopt(parameter, value)


def _glibc() -> Any:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
