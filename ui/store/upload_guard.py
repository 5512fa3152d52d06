"""Uploads on their way in: Streamlit takes any number of files from any session; here they are expected, or refused.

Streamlit keeps a file that was sent until its session ends, whether or not a page asked for it. So a request to upload
passes only where the open page has an uploader, and as much as that one is for, and is counted with all else that
uploads hold until the page has read the file, another page is opened, or the reader has left.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer.errors import CheckpointError
from ui.patches import session
from ui.store import session_resources
from ui.store.upload_quota import Counted, UploadLimits

MAX_FILES = 64
"""Files that may wait in one session; each takes some memory, however small it is."""

FORM_BYTES = 4096
"""What the form around a file may take."""

NO_LENGTH, TOO_LARGE, NO_ROOM = 411, 413, 507

PAGE = "upload_guard.page"

_UPLOAD = re.compile(r"/_stcore/upload_file/([^/]+)/([^/]+)$")


class Arrivals:
    """What each session's open page expects, and the files that came and were not read yet."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._expected: dict[str, int] = {}
        self._held: dict[str, dict[str, Counted]] = {}

    def expect(self, session_id: str, n_bytes: int) -> None:
        """An uploader is drawn, for at most so many bytes in all."""
        with self._lock:
            self._expected[session_id] = max(n_bytes, self._expected.get(session_id, 0))

    def count(self, session_id: str, file_id: str, n_bytes: int) -> int:
        """Count a file that is about to come; the HTTP status of a refusal, or 0."""
        with self._lock:
            self.strike(session_id, file_id)
            held = self._held.get(session_id, {})
            room = self._expected.get(session_id, 0) + FORM_BYTES * (len(held) + 1)
            together = sum(one.n_bytes for one in held.values()) + n_bytes
            if session_id not in self._expected or len(held) >= MAX_FILES or together > room:
                return TOO_LARGE
            try:
                counted = Counted(n_bytes, UploadLimits.of(os.environ).server_bytes)
            except CheckpointError:
                return NO_ROOM
            self._held.setdefault(session_id, {})[file_id] = counted
            return 0

    def is_held(self, session_id: str, file_id: str) -> bool:
        """Whether a file is counted."""
        return file_id in self._held.get(session_id, {})

    def strike(self, session_id: str, file_id: str) -> None:
        """Count a file no more."""
        with self._lock:
            held = self._held.get(session_id, {})
            if file_id in held:
                held.pop(file_id).strike()

    def leave(self, session_id: str) -> bool:
        """Let go of all files of a session, and expect no more; whether there were any."""
        with self._lock:
            self._expected.pop(session_id, None)
            held = self._held.pop(session_id, {})
            for counted in held.values():
                counted.strike()
        session.drop_files(session_id)
        return bool(held)


ARRIVALS = Arrivals()


class UploadGuard:
    """Middleware: asks `ARRIVALS` before a file is read from the network."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but uploads that nobody expects."""
        upload = _UPLOAD.search(scope["path"]) if scope["type"] == "http" else None
        if upload is None or scope["method"] not in {"PUT", "DELETE"} or not session.apply("session_id"):
            await self.app(scope, receive, send)
            return
        session_id, file_id = upload.groups()
        if scope["method"] == "PUT":
            length = Headers(scope=scope).get("content-length", "")
            refused = ARRIVALS.count(session_id, file_id, int(length)) if length.isdecimal() else NO_LENGTH
            if refused:
                await PlainTextResponse("no uploader of this page is for that much", refused)(scope, receive, send)
                return
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            is_kept = scope["method"] == "PUT" and status < 300
            if not is_kept:
                ARRIVALS.strike(session_id, file_id)
            elif not ARRIVALS.is_held(session_id, file_id):  # its page was left meanwhile
                session.drop_files(session_id, file_id)


def page_begins(page: str) -> None:
    """A run of a page begins: what another page expected is expected no more, and what it had is let go."""
    if st.session_state.get(PAGE, page) != page:
        ARRIVALS.leave(session.session_id())
    st.session_state[PAGE] = page


def expect(n_bytes: int) -> None:
    """Let files of at most so many bytes in all arrive for an uploader that is drawn now."""
    session_id = session.session_id()
    ARRIVALS.expect(session_id, n_bytes)
    session_resources.mine().on_leaving = lambda: ARRIVALS.leave(session_id)


@contextmanager
def reading(files: Sequence[Any]) -> Iterator[None]:
    """Inside, files are read; they are closed afterwards, whatever becomes of them.

    The framework's copies are dropped: they would stay until the session ends.
    """
    session_id = session.session_id()
    for file in files if session_id else ():
        ARRIVALS.strike(session_id, file.file_id)
        session.drop_files(session_id, file.file_id)
    try:
        yield
    finally:
        for file in files:
            file.close()
