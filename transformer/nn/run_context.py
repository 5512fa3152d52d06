"""What the caller asked of the passes that it runs: one value in one context variable.

It belongs to the caller's context (a thread or a task): others do not notice, and nothing stays behind.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from torch import Tensor


class RunContext(NamedTuple):
    """How the passes of one caller are watched and changed, and where they are in a text.

    `recording` collects attention, `interventions` change it, `trace` collects activations: objects of the rooms above,
    None where nobody asked. `row_sums` holds what the last long attention left of its rows, None where nobody records.
    `position_offset` is the position of the first query of a decoder's attention, None where a pass computes all rows.
    `is_streaming` says that the text will go on, so that positions that it does not have yet may be named.
    `is_quick` lets attention over few keys leave out the maximum of each row, and oneDNN compute linear maps: equal to
    rounding, not to the bit.
    """

    recording: Any = None
    interventions: Any = None
    trace: Any = None
    row_sums: list[Tensor] | None = None
    position_offset: int | None = None
    is_streaming: bool = False
    is_quick: bool = False


_context: ContextVar[RunContext] = ContextVar("run context", default=RunContext())  # noqa: B039  # a tuple


def run_context() -> RunContext:
    """The caller's."""
    return _context.get()


@contextmanager
def changed_context(**changes: Any) -> Iterator[None]:
    """Change fields of the caller's context for the length of a block."""
    token = _context.set(_context.get()._replace(**changes))
    try:
        yield
    finally:
        _context.reset(token)
