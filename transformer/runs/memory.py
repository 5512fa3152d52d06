"""How the C library hands out memory to a process that does one thing over and over."""

import ctypes
import platform

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""Parameters of mallopt(3), as malloc.h numbers them."""


def recycle_memory() -> None:
    """Let the C library keep freed memory for the next batch instead of handing it back to the system.

    The tensors of a batch are large and live briefly; without this, glibc maps and unmaps each, and the first touch
    of every page is a fault: 68,000 an update of the small translation model, and 10 to 25 % of its time. Other C
    libraries are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((M_MMAP_THRESHOLD, 2**30), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**28)):
            mallopt(parameter, value)
