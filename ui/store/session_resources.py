"""What one session holds for itself alone: its uploads, also those on their way in, and what was computed from them.

Streamlit keeps the state of a session whose user has left until somebody else comes and garbage is collected, which
may be never on a quiet server. So what is large lies here, and is let go once its user can come back no more. A run of
an upload ends sooner: nobody waits for it, and it holds a core and a forward slot.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock, Thread
from typing import Any
from weakref import WeakValueDictionary

import streamlit as st
from torch import nn

from ui.patches import session
from ui.store import log
from ui.store.limits import give_back

STATE = "session_resources"
INTERVAL, BETWEEN = 5.0, 60.0
"""Seconds between two looks at who has left, and between two collections of what sessions leave that held nothing
large: everybody waits for one."""

LOOKING, PATIENCE = 0.5, 3.0
"""Seconds between two looks of a run at whether its reader is there, and how long one may be away: a browser whose
connection was cut comes back within one or two."""

_SEALED: ContextVar[bool] = ContextVar("sealed", default=False)


class SessionResources:
    """One session's uploads by reference, records among them, its results by kind, and the refusals that it was told.

    `expected` are the bytes that may arrive for an uploader of the open `page` (None without one), `arrived` what came
    and was not read yet, by the framework's ids, as `upload_guard` counts it under `lock`.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.uploads, self.results, self.refused = dict[Any, Any](), dict[str, Any](), set[str]()
        self.lock, self.arrived = RLock(), dict[str, Any]()
        self.expected: int | None = None
        self.page: str | None = None
        self.seen = time.monotonic()

    @property
    def n_bytes(self) -> int:
        """Bytes of the files that it brought."""
        return sum(one.n_bytes for one in self.uploads.values())

    def drop_arrived(self, *file_ids: str) -> None:
        """Count files that came (all where none is named, and then none is expected any more) no longer.

        The framework's copies are dropped, which would stay until the session ends.
        """
        with self.lock:
            self.expected = self.expected if file_ids else None
            for one in [self.arrived.pop(name, None) for name in file_ids or list(self.arrived)]:
                if one is not None:
                    one.strike()
        session.drop_files(self.session_id, *file_ids)

    def let_go(self) -> bool:
        """Free everything; whether there was anything."""
        had_any = bool(self.uploads or self.results or self.arrived)
        self.uploads.clear()
        self.results.clear()
        self.drop_arrived()
        return had_any


def mine() -> SessionResources:
    """What the user's session holds.

    Raises:
        RuntimeError: a result for all sessions is being computed, and must not come from one session.
    """
    if _SEALED.get():
        raise RuntimeError("a result for all sessions asks for an upload: its key must hold the upload's revision")
    if STATE not in st.session_state:
        made = st.session_state[STATE] = SessionResources(session.session_id())
        HOUSEKEEPER.sessions[made.session_id] = made
    found: SessionResources = st.session_state[STATE]
    return found


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Inside, `mine` fails: what is computed here is for all sessions."""
    token = _SEALED.set(True)
    try:
        yield
    finally:
        _SEALED.reset(token)


def stop_without(reader: SessionResources, model: nn.Module) -> None:
    """From now on, a run of `model` ends a few seconds after the `reader` has left, before its next layer.

    Streamlit ends a script where it speaks to the browser, which a model does not while it computes. Less than 1 us a
    layer. Of what nobody serves (a test, a program) nobody leaves.
    """
    session_id, looked, away = reader.session_id, time.monotonic(), math.inf

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
    """Lets go of what `sessions` (by their ids) held whose users have left for good."""

    def __init__(self) -> None:
        self.sessions = WeakValueDictionary[str, SessionResources]()
        self._collected, self._left = -math.inf, 0

    def begin(self) -> None:
        """Look now and then, as long as the server lives."""
        Thread(target=self._work, name="housekeeper", daemon=True).start()

    def look(self, here: Callable[[str], bool], patience: float, now: float) -> int:
        """Free what was held by those who have not been `here` for `patience` seconds; returns how many they were."""
        gone = list[SessionResources]()
        for one in filter(None, [kept() for kept in self.sessions.valuerefs()]):
            if here(one.session_id):
                one.seen = now
            elif now - one.seen > patience:
                self.sessions.pop(one.session_id, None)
                gone.append(one)
        large = [one.let_go() for one in gone]
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


HOUSEKEEPER = Housekeeper()
