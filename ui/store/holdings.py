"""What one session holds for itself alone: its uploads, and what was computed from them.

Streamlit keeps the state of a session whose user has left until somebody else comes and garbage is collected, which
may be never on a quiet server. So what is large lies here, and a session that brought files is closed once its user
has been away for about as long as they may come back.
"""

import math
import time
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock, Thread
from typing import Any

import streamlit as st
from streamlit import config, runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.store import log
from ui.store.memory import give_back

STATE = "holdings"
INTERVAL = 5.0
"""Seconds between two looks at who has left."""

BETWEEN = 60.0
"""Seconds between two collections of what sessions leave that held nothing large: everybody waits for one."""

PATIENCE = 10.0
"""Seconds that closing sessions may take before garbage is collected without it."""

_SEALED: ContextVar[bool] = ContextVar("sealed", default=False)


class Holdings:
    """One session's uploads and records by reference, its results by kind, and the refusals that it was told.

    `on_leaving` frees what the session has elsewhere, and says whether there was anything.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.uploads: dict[Any, Any] = {}
        self.records: dict[Any, Any] = {}
        self.results: dict[str, Any] = {}
        self.refused: set[str] = set()
        self.on_leaving: Callable[[], bool] | None = None
        self.seen = time.monotonic()

    @property
    def n_bytes(self) -> int:
        """Bytes of the files that it brought."""
        return sum(one.n_bytes for one in (*self.uploads.values(), *self.records.values()))

    def let_go(self) -> bool:
        """Free everything; whether there was anything."""
        held = bool(self.uploads or self.records or self.results)
        self.uploads.clear()
        self.records.clear()
        self.results.clear()
        if self.on_leaving is not None:
            held |= self.on_leaving()
            self.on_leaving = None
        return held


def mine() -> Holdings:
    """What the user's session holds.

    Raises:
        RuntimeError: a result for all sessions is being computed, and must not come from one session.
    """
    if _SEALED.get():
        raise RuntimeError("a result for all sessions asks for an upload: its key must hold the upload's revision")
    if STATE not in st.session_state:
        context = get_script_run_ctx()
        st.session_state[STATE] = Holdings("" if context is None else context.session_id)
        HOUSEKEEPER.look_after(st.session_state[STATE])
    held: Holdings = st.session_state[STATE]
    return held


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Inside, `mine` fails: what is computed here is for all sessions."""
    token = _SEALED.set(True)
    try:
        yield
    finally:
        _SEALED.reset(token)


class Housekeeper:
    """Closes the sessions of users who have left for good and lets go of what they held; sleeps while there are none.

    Streamlit closes them too, but only when somebody else comes, and their memory stays until garbage is collected.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._held = weakref.WeakSet[Holdings]()
        self._thread: Thread | None = None
        self._loop: AbstractEventLoop | None = None
        self._collected, self._left = -math.inf, 0

    def serve(self, loop: AbstractEventLoop) -> None:
        """Sessions live in this loop from now on."""
        self._loop = loop

    def look_after(self, held: Holdings) -> None:
        """Look at a session from now on."""
        with self._lock:
            self._held.add(held)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="housekeeper", daemon=True)
                self._thread.start()

    def look(self, here: Callable[[str], bool], patience: float, now: float) -> int:
        """Free what was held by those who have not been `here` for `patience` seconds; returns how many they were."""
        gone = list[Holdings]()
        for held in list(self._held):
            if here(held.session_id):
                held.seen = now
            elif now - held.seen > patience:
                with self._lock:
                    self._held.discard(held)
                gone.append(held)
        large = [held.let_go() for held in gone]
        self._close([held.session_id for held in gone])
        self._left += len(gone)
        if any(large) or (self._left and now - self._collected > BETWEEN):
            log.event("left", "debug", sessions=self._left)
            self._collected, self._left = now, 0
            give_back()
        return len(gone)

    def _close(self, sessions: list[str]) -> None:
        """Close sessions where they live, and wait until it is done."""
        if self._loop is None or self._loop.is_closed() or not sessions:
            return
        closed = Event()

        def close() -> None:
            for session_id in sessions:
                runtime.get_instance().close_session(session_id)
            closed.set()

        self._loop.call_soon_threadsafe(close)
        closed.wait(PATIENCE)

    def _work(self) -> None:
        while True:
            time.sleep(INTERVAL)
            try:
                here = runtime.get_instance().is_active_session
            except RuntimeError:  # nothing is served, as in tests
                here = None
            if here is not None:
                kept = float(config.get_option("server.disconnectedSessionTTL"))
                # Streamlit still knows a session until then; later it can no more be closed.
                self.look(here, max(kept / 2, kept - 2 * INTERVAL), time.monotonic())
            with self._lock:
                if not self._held and not self._left:
                    self._thread = None
                    return


HOUSEKEEPER = Housekeeper()
