"""Scripts take turns.

Each action of a user is a run of the script in a thread of its own, and all of them share one interpreter: the more of
them run at once, the fewer are done in a second. So at most `AT_ONCE` go on at a time, and the others wait for theirs.

A turn is for drawing. Whoever computes something that takes its time, or waits for what another run computes, gives the
turn back and goes on without: such work has bounds of its own (`transformer.runs.concurrency`, the workers that read
files). A turn is taken where nothing else is held, and a second time only after a slice of long work
(`aside`), so no two runs can wait for each other.
"""

import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import BoundedSemaphore, local

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from transformer.checkpoint.worker.pool import WORKERS
from transformer.checkpoint.worker.template import Host
from transformer.runs import concurrency
from ui.patches import session
from ui.texts import t

AT_ONCE = 2
"""Runs that draw at the same time: one, and one more while that one waits for the network or a lock."""

_free = BoundedSemaphore(AT_ONCE)
_drawing = list[None]()
"""One for each run that has a turn."""

_TURN: ContextVar[list[None] | None] = ContextVar("turn", default=None)
"""The turn of this run: a list that is empty once it was given back; None outside of `turn`."""

SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter while another wants it: a run that draws lets go of it a hundred times, and
waits so long each time where something is computed (Python's 5 ms: actions took half as long again)."""


def begin() -> None:
    """Settings of the whole process, made when the server starts.

    What runs at the same time are users: two threads for one of them wait for each other once cores are shared.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    torch.set_num_threads(1)
    concurrency.stand_back_for(busy)
    WORKERS.host = Readers()


@contextmanager
def turn() -> Iterator[None]:
    """Wait for a turn, and keep it until the block ends, however it ends, or until `give_back`.

    Within a turn there is nothing to wait for.
    """
    if _TURN.get() is not None:
        yield
        return
    mine = list[None]()
    _take(mine)
    before = _TURN.set(mine)
    try:
        yield
    finally:
        give_back()
        _TURN.reset(before)


def give_back() -> None:
    """Let another run go on; nothing happens without a turn, or where it was given back before."""
    mine = _TURN.get()
    if mine:
        mine.clear()
        _drawing.pop()
        _free.release()


@contextmanager
def aside() -> Iterator[None]:
    """For a slice of long work: without a turn, and standing back while others draw; what it draws takes a turn again.

    Nothing may be held here that others wait for.
    """
    mine = _TURN.get()
    had = bool(mine)
    give_back()
    with concurrency.long_work():
        yield
    if mine is not None and had:
        _take(mine)


def busy() -> bool:
    """Whether somebody draws."""
    return bool(_drawing)


def _take(mine: list[None]) -> None:
    _free.acquire()
    _drawing.append(None)
    mine.append(None)


class Readers(Host):
    """What worker processes know of the dashboard: whose file they read, and that nobody else waits for it."""

    def __init__(self) -> None:
        self._here = local()

    def client(self) -> Hashable | None:
        """The session of this run: it has one file read at a time."""
        return session.session_id() or None

    def waits(self) -> None:
        """Let others draw: what waits for a file goes on without its turn."""
        give_back()

    def queued(self, ahead: int) -> None:
        """Say on the page how many files are read first."""
        if not session.session_id():
            return
        place: DeltaGenerator | None = getattr(self._here, "place", None)
        self._here.place = None  # where what follows ends the run, the next one begins anew
        if ahead:
            place = place or st.empty()
            place.info(t("store.queue", count=ahead), icon=":material/hourglass_top:")
            self._here.place = place
        elif place is not None:
            place.empty()
