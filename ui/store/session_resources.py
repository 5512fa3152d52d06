"""What one session holds for itself alone: its uploads, and what was computed from them.

Streamlit keeps the state of a session whose user has left until somebody else comes and garbage is collected, which
may be never on a quiet server. So what is large lies here, and is let go once its user can come back no more. A run of
an upload ends sooner: nobody waits for it, and it holds a core and a forward slot.
"""

import math
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, Thread
from typing import Any

import streamlit as st
from torch import nn

from ui.patches import session
from ui.store import log
from ui.store.machine import give_back

STATE = "session_resources"
INTERVAL = 5.0
"""Seconds between two looks at who has left."""

BETWEEN = 60.0
"""Seconds between two collections of what sessions leave that held nothing large: everybody waits for one."""

LOOKING, PATIENCE = 0.5, 3.0
"""Seconds between two looks of a run at whether its reader is there, and how long one may be away: a browser whose
connection was cut comes back within one or two."""

_SEALED: ContextVar[bool] = ContextVar("sealed", default=False)


class SessionResources:
    """One session's uploads by reference, records among them, its results by kind, and the refusals that it was told.

    `on_leaving` frees what the session has elsewhere, and says whether there was anything.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.uploads: dict[Any, Any] = {}
        self.results: dict[str, Any] = {}
        self.refused: set[str] = set()
        self.on_leaving: Callable[[], bool] = bool
        self.seen = time.monotonic()

    @property
    def n_bytes(self) -> int:
        """Bytes of the files that it brought."""
        return sum(one.n_bytes for one in self.uploads.values())

    def let_go(self) -> bool:
        """Free everything; whether there was anything."""
        held = bool(self.uploads or self.results)
        self.uploads.clear()
        self.results.clear()
        return self.on_leaving() or held


def mine() -> SessionResources:
    """What the user's session holds.

    Raises:
        RuntimeError: a result for all sessions is being computed, and must not come from one session.
    """
    if _SEALED.get():
        raise RuntimeError("a result for all sessions asks for an upload: its key must hold the upload's revision")
    if STATE not in st.session_state:
        st.session_state[STATE] = SessionResources(session.session_id())
        HOUSEKEEPER.look_after(st.session_state[STATE])
    held: SessionResources = st.session_state[STATE]
    return held


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Inside, `mine` fails: what is computed here is for all sessions."""
    token = _SEALED.set(True)
    try:
        yield
    finally:
        _SEALED.reset(token)


def ends_without(held: SessionResources, model: nn.Module) -> None:
    """From now on, a run of `model` ends a few seconds after the reader of `held` has left, before its next layer.

    Streamlit ends a script where it speaks to the browser, which a model does not while it computes. Less than 1 us a
    layer. Of what nobody serves (a test, a program) nobody leaves.
    """
    session_id, looked, away = held.session_id, time.monotonic(), math.inf

    def check(*_: object) -> None:
        nonlocal looked, away
        now = time.monotonic()
        if now - looked < LOOKING:
            return
        looked, away = now, math.inf if session.is_connected(session_id) else min(away, now)
        if now - away > PATIENCE:
            st.stop()

    listed = [child for one in model.modules() if isinstance(one, nn.ModuleList) for child in one]
    watched: Any = model
    for module in dict.fromkeys([*listed, *watched.attention_sites().values(), model]):
        module.register_forward_pre_hook(check)


class Housekeeper:
    """Lets go of what sessions held whose users have left for good; sleeps while there are none."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held = weakref.WeakSet[SessionResources]()
        self._thread: Thread | None = None
        self._collected, self._left = -math.inf, 0

    def look_after(self, held: SessionResources) -> None:
        """Look at a session from now on."""
        with self._lock:
            self._held.add(held)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="housekeeper", daemon=True)
                self._thread.start()

    def look(self, here: Callable[[str], bool], patience: float, now: float) -> int:
        """Free what was held by those who have not been `here` for `patience` seconds; returns how many they were."""
        gone = list[SessionResources]()
        for held in list(self._held):
            if here(held.session_id):
                held.seen = now
            elif now - held.seen > patience:
                with self._lock:
                    self._held.discard(held)
                gone.append(held)
        large = [held.let_go() for held in gone]
        self._left += len(gone)
        if any(large) or (self._left and now - self._collected > BETWEEN):
            log.event("left", "debug", sessions=self._left)
            self._collected, self._left = now, 0
            give_back()
        return len(gone)

    def _work(self) -> None:
        while True:
            time.sleep(INTERVAL)
            # Until then a browser may come back to its session.
            self.look(session.is_connected, float(st.get_option("server.disconnectedSessionTTL")), time.monotonic())
            with self._lock:
                if not self._held and not self._left:
                    self._thread = None
                    return


HOUSEKEEPER = Housekeeper()
