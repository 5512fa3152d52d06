"""Files on their way in: Streamlit takes any number of them from any session; here they are expected, or refused.

Streamlit keeps a file that was sent until its session ends, whether or not a page asked for it. What holds those
copies (the upload manager) is told here to take a file only where an uploader is drawn and as much as it is for, and to
count it with all else that uploads hold. A body is still read before this is asked: what arrives at the same time is
bounded by `server.maxUploadSize` and by whatever stands in front of the server.
"""

import os
from collections.abc import Iterable
from threading import RLock
from typing import Any

from starlette.exceptions import HTTPException
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from transformer.errors import CheckpointError
from ui.store import holdings
from ui.store.ledger import Counted, UploadLimits

MAX_FILES = 64
"""Files that may wait in one session; each takes some memory, however small it is."""

TOO_LARGE, NO_ROOM = 413, 507


class Arrivals:
    """Stands before an upload manager: lets in what a session expects, and counts it until it is let go."""

    def __init__(self, manager: MemoryUploadedFileManager) -> None:
        self._lock = RLock()
        self._expected: dict[str, tuple[str, int]] = {}
        self._held: dict[str, dict[str, Counted]] = {}
        self._came = set[str]()
        self._add, self._remove, self._remove_all = (
            manager.add_file, manager.remove_file, manager.remove_session_files,
        )  # fmt: skip

    def page(self, session_id: str, page: str) -> None:
        """A run of a page begins; what another page expected is expected no more, and what it had is let go."""
        with self._lock:
            if self._expected.get(session_id, (page, 0))[0] != page:
                came = self._came & {session_id}
                self.remove_session_files(session_id)
                self._came |= came

    def expect(self, session_id: str, page: str, n_bytes: int) -> None:
        """An uploader is drawn, for at most so many bytes in all."""
        with self._lock:
            same, before = self._expected.get(session_id, (page, 0))
            self._expected[session_id] = page, max(n_bytes, before if same == page else 0)

    def add_file(self, session_id: str, file: UploadedFileRec) -> None:
        """Keep a file that arrived.

        Raises:
            HTTPException: no uploader of the session is for it, or the server has no room.
        """
        with self._lock:
            self.remove_file(session_id, file.file_id)
            held = self._held.get(session_id, {})
            _, room = self._expected.get(session_id, ("", 0))
            if len(held) >= MAX_FILES or sum(one.n_bytes for one in held.values()) + len(file.data) > room:
                raise HTTPException(TOO_LARGE, "no uploader of this page is for that much: remove files first")
            try:
                counted = Counted(len(file.data), UploadLimits.of(os.environ).server_bytes)
            except CheckpointError as error:
                raise HTTPException(NO_ROOM, str(error)) from error
            self._held.setdefault(session_id, {})[file.file_id] = counted
            self._came.add(session_id)
            self._add(session_id, file)

    def remove_file(self, session_id: str, file_id: str) -> None:
        """Let go of a file."""
        with self._lock:
            self._remove(session_id, file_id)
            held = self._held.get(session_id, {})
            if file_id in held:
                held.pop(file_id).strike()
                if not held:
                    del self._held[session_id]

    def remove_session_files(self, session_id: str) -> None:
        """Let go of all files of a session, and expect no more."""
        with self._lock:
            self._remove_all(session_id)
            self._expected.pop(session_id, None)
            self._came.discard(session_id)
            for counted in self._held.pop(session_id, {}).values():
                counted.strike()

    def leave(self, session_id: str) -> bool:
        """Let go of the files of a user who has left; whether one ever came."""
        with self._lock:
            came = session_id in self._came
            self.remove_session_files(session_id)
        return came


def before(manager: Any) -> Arrivals | None:
    """What stands before an upload manager; it is put there the first time. None before one of another kind."""
    standing = getattr(getattr(manager, "add_file", None), "__self__", None)
    if isinstance(standing, Arrivals):
        return standing
    if not isinstance(manager, MemoryUploadedFileManager):
        return None
    made = Arrivals(manager)
    for name in ("add_file", "remove_file", "remove_session_files"):
        setattr(manager, name, getattr(made, name))
    return made


def page_begins() -> None:
    """Expect nothing yet on the page whose run begins."""
    context = get_script_run_ctx()
    if context is not None and (arrivals := before(context.uploaded_file_mgr)) is not None:
        arrivals.page(context.session_id, context.page_script_hash)


def expect(n_bytes: int) -> None:
    """Let files of at most so many bytes in all arrive for an uploader that is drawn now."""
    context = get_script_run_ctx()
    if context is not None and (arrivals := before(context.uploaded_file_mgr)) is not None:
        session_id = context.session_id
        arrivals.expect(session_id, context.page_script_hash, n_bytes)
        holdings.mine().on_leaving = lambda: arrivals.leave(session_id)


def let_go(files: Iterable[Any]) -> None:
    """Drop the framework's copies of files that are being read; they would stay until the session ends."""
    context = get_script_run_ctx()
    if context is not None and (arrivals := before(context.uploaded_file_mgr)) is not None:
        for file in files:
            arrivals.remove_file(context.session_id, file.file_id)
