"""How much uploads may hold, and how much they do: from a file's arrival to its last reference.

Streamlit takes any number of files from any session, and keeps one until its session ends, whether or not a page asked
for it. So a request to upload passes only where the open page has an uploader, and as much as that one is for. It is
counted with all else that uploads hold until the page has read the file, another page is opened, or its reader left.
"""

import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heedmap.errors import CheckpointError
from heedmap.safe.limits import MEGABYTE
from ui.patches import session
from ui.store import limits
from ui.store.session_resources import HOUSEKEEPER, SessionResources, mine

MAX_FILES = 64
"""Files that may wait in one session; each takes some memory, however small it is."""

FORM_BYTES = 4096
"""What the form around a file may take."""

NO_LENGTH, TOO_LARGE, NO_ROOM = 411, 413, 507

_UPLOAD = re.compile(r"/_stcore/upload_file/([^/]+)/([^/]+)$")


class Ledger:
    """How many bytes all sessions hold: sizes of files; of a model's folder that of its model, where it takes more.

    Threads and finalizers write it, the latter at any moment of a thread. A model that runs takes as much again.
    """

    def __init__(self) -> None:
        self._lock, self.n_bytes = RLock(), 0

    def add(self, n_bytes: int) -> None:
        """Count bytes before they are read, or no more where they are negative.

        Raises:
            CheckpointError: all sessions together would hold more than the server may.
        """
        with self._lock:
            if n_bytes > 0 and self.n_bytes + n_bytes > limits.n_bytes(limits.SERVER):
                raise CheckpointError("server_full", held=megabytes(self.n_bytes), more=megabytes(n_bytes))
            self.n_bytes += n_bytes


LEDGER = Ledger()


class CountedBytes:
    """Bytes in the ledger: struck off when nothing refers to this any more, at once where a block around it fails.

    Raises:
        CheckpointError: all sessions together would hold more than the server may.
    """

    def __init__(self, n_bytes: int) -> None:
        LEDGER.add(n_bytes)
        self.n_bytes = n_bytes
        self.strike = weakref.finalize(self, LEDGER.add, -n_bytes)
        """Count them no more; once is enough."""

    def __enter__(self) -> "CountedBytes":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # at once: the error's traceback may live on
            self.strike()


def megabytes(n_bytes: int) -> str:
    """A size for a sentence."""
    return f"{n_bytes / MEGABYTE:,.1f} MB"


class UploadGuard:
    """Middleware: counts a file before it is read from the network, and lets none pass that nobody expects."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but uploads that nobody expects."""
        upload = _UPLOAD.search(scope["path"]) if scope["type"] == "http" else None
        if upload is None or scope["method"] not in {"PUT", "DELETE"} or not session.apply("session_id"):
            await self.app(scope, receive, send)
            return
        session_id, file_id = upload.groups()
        resources, comes = (
            HOUSEKEEPER.sessions.get(session_id) or SessionResources(session_id),
            scope["method"] == "PUT",
        )
        refused = _refusal(resources, file_id, Headers(scope=scope).get("content-length", "")) if comes else 0
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
            if not comes or status >= 300 or file_id not in resources.arrived:  # its page was left meanwhile
                resources.drop_arrived(file_id)


def _refusal(resources: SessionResources, file_id: str, length: str) -> int:
    """Count a file that is about to come; the HTTP status of a refusal, or 0."""
    if not length.isdecimal():
        return NO_LENGTH
    with resources.lock:
        if file_id in resources.arrived:  # sent anew
            resources.arrived.pop(file_id).strike()
        room = (resources.expected or 0) + FORM_BYTES * (len(resources.arrived) + 1)
        together = sum(one.n_bytes for one in resources.arrived.values()) + int(length)
        if resources.expected is None or len(resources.arrived) >= MAX_FILES or together > room:
            return TOO_LARGE
        try:
            resources.arrived[file_id] = CountedBytes(int(length))
        except CheckpointError:
            return NO_ROOM
        return 0


def page_begins(page: str) -> None:
    """A run of a page begins: what another page expected is expected no more, and what it had is let go."""
    resources = mine()
    if resources.page not in {None, page}:
        resources.drop_arrived()
    resources.page = page


def expect(n_bytes: int) -> None:
    """Let files of at most so many bytes in all arrive for an uploader that is drawn now."""
    resources = mine()
    with resources.lock:
        resources.expected = max(n_bytes, resources.expected or 0)


@contextmanager
def reading(files: Sequence[Any]) -> Iterator[None]:
    """Inside, files are read, and counted as arrived no more; they are closed then, whatever becomes of them."""
    if files:
        mine().drop_arrived(*(file.file_id for file in files))
    try:
        yield
    finally:
        for file in files:
            file.close()
