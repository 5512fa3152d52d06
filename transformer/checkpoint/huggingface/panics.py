"""Native code that gives up: the `tokenizers` library raises a panic, which is no `Exception` and passes by them."""

from collections.abc import Iterator
from contextlib import contextmanager

PANIC = ("pyo3_runtime", "PanicException")
"""The module and the name of the class; it can be imported from nowhere."""


class PanicError(Exception):
    """Native code gave up; the message is its own."""


@contextmanager
def panics_raised() -> Iterator[None]:
    """Turn a panic into an error that can be caught as others are.

    Raises:
        PanicError: native code gave up.
    """
    try:
        yield
    except BaseException as error:
        if (type(error).__module__, type(error).__name__) != PANIC:
            raise
        raise PanicError(f"its native code gave up: {error}") from error
