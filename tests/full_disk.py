"""A disk that is full, for tests: the system refuses to write past so many bytes of any file."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(n_bytes: int) -> Iterator[None]:
    """No file can be written past so many bytes; who tries gets an error of the system, as on a full disk.

    Python itself would keep the part of a compiled module that it could write, and fail over it ever after.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
        sys.dont_write_bytecode = compiles
