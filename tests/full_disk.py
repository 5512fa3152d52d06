"""A disk that is full, for tests: the system refuses to write past so many bytes of any file."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(n_bytes: int) -> Iterator[None]:
    """No file can be written past so many bytes; who tries gets an error of the system, as on a full disk."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
