"""Scripts take turns.

Each action of a user is a run of the script in a thread of its own, and all of them share one interpreter: the more of
them run at once, the fewer are done in a second. So few go on at a time (`heedmap.runs.concurrency.turns`), and the
others wait for theirs.

A turn is for drawing. Whoever computes something that takes its time, or waits for what another run computes, gives the
turn back and goes on without: such work has bounds of its own (forward slots, the workers that read files), and long
work queues for turns as well, behind whoever draws. A turn is taken where nothing is held that one who has a turn waits
for, so no two runs can wait for each other.
"""

import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import local

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from heedmap.checkpoint.worker.pool import WORKERS
from heedmap.checkpoint.worker.template import Host
from heedmap.runs.concurrency import AT_ONCE, LOOK, turns
from ui.patches import session
from ui.texts import t

_WITHIN: ContextVar[bool] = ContextVar("within", default=False)
"""Whether this run has a turn, or had one and gave it back."""

SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter while another wants it: a run that draws lets go of it a hundred times, and
waits so long each time where something is computed (Python's 5 ms: actions took half as long again)."""


def begin() -> None:
    """Settings of the whole process, made when the server starts.

    What runs at the same time are users: two threads for one of them wait for each other once cores are shared.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    torch.set_num_threads(1)
    turns.most_long = AT_ONCE - 1  # one turn is never long work's
    WORKERS.host = Readers("store.queue")


@contextmanager
def turn() -> Iterator[None]:
    """Wait for a turn, and keep it until the block ends, however it ends, or until `give_back`.

    Within a turn there is nothing to wait for.
    """
    if _WITHIN.get():
        yield
        return
    before = _WITHIN.set(True)
    try:
        with turns.slot(LOOK):
            yield
    finally:
        _WITHIN.reset(before)


def give_back() -> None:
    """Let another run go on; nothing happens without a turn, or where it was given back before."""
    turns.have(None)


class Readers(Host):
    """What a queue knows of the dashboard: for whom it works, and that nobody else waits for it.

    `text` is the key of what a page says of its place in the queue.
    """

    def __init__(self, text: str) -> None:
        self._text, self._here = text, local()

    def client(self) -> Hashable | None:
        """The session of this run: it has one job done at a time."""
        return session.session_id() or None

    def waits(self) -> None:
        """Let others draw: whoever waits goes on without a turn."""
        give_back()

    def queued(self, ahead: int) -> None:
        """Say on the page how many jobs come first."""
        if not session.session_id():
            return
        place: DeltaGenerator | None = getattr(self._here, "place", None)
        self._here.place = None  # where what follows ends the run, the next one begins anew
        if ahead:
            place = place or st.empty()
            place.info(t(self._text, count=ahead), icon=":material/hourglass_top:")
            self._here.place = place
        elif place is not None:
            place.empty()
