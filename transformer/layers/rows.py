"""Which row of the whole a pass computes first: stepwise decoding passes one row at a time through an attention.

A model's `step` says it, so that what acts on a certain row of a map acts on the same one however it is decoded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_first: ContextVar[int | None] = ContextVar("first row of this pass", default=None)


def first_row() -> int | None:
    """The position, among all that a target will have, of the first query of a decoder's attention in this pass.

    None where a pass computes all rows.
    """
    return _first.get()


@contextmanager
def rows_from(first: int) -> Iterator[None]:
    """Queries of the decoder's attention stand at `first` and after it inside; it belongs to the caller's context."""
    token = _first.set(first)
    try:
        yield
    finally:
        _first.reset(token)


_goes_on: ContextVar[bool] = ContextVar("the text of this pass goes on", default=False)


def is_going_on() -> bool:
    """Whether the text that is read will go on, so that positions that it does not have yet may be spoken of."""
    return _goes_on.get()


@contextmanager
def going_on() -> Iterator[None]:
    """The text that is read inside will go on; it belongs to the caller's context."""
    token = _goes_on.set(True)
    try:
        yield
    finally:
        _goes_on.reset(token)
