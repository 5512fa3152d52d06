"""What this process holds, as its allocator tells it (glibc); what the processes beside `test_sizes` measure with."""

import ctypes
import gc
import logging
import random
from pathlib import Path

PAGE = 4096
WORDS = ("a", "dog", "man", "in", "the", "red", "street", "with", "two", "children", "and", "bicycle", "plays", "near")
FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")

logging.disable(logging.CRITICAL)  # nobody is there to be shown a spinner


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in FIELDS)


def in_use() -> int:
    """Bytes that somebody refers to: of heaps, and of blocks with pages of their own."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def words(chance: random.Random, least: int = 4, most: int = 12) -> str:
    """A sentence that nobody has typed before."""
    return " ".join(chance.choices(WORDS, k=chance.randint(least, most)))


def letters(chance: random.Random) -> str:
    """A sequence that nobody has typed before."""
    return "".join(chance.choices("ACGT", k=chance.randint(60, 200)))
