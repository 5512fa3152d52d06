"""How much uploads may hold, and how much they do: from a file's arrival to its last reference."""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from threading import RLock

from transformer.errors import CheckpointError
from transformer.safe.limits import MEGABYTE
from ui.store import session_resources
from ui.store.refs import CheckpointRef, Origin
from ui.store.settings import MEGABYTES, n_bytes


@dataclass(frozen=True)
class UploadLimits:
    """How much may be held: `file_bytes` and `session_bytes` for one session, `server_bytes` for all together.

    Sizes are those of the files; of a model's folder those of its model, where that takes more. A model that runs takes
    as much again.
    """

    file_bytes: int = MEGABYTES["HEEDMAP_UPLOAD_MB"] * MEGABYTE
    session_bytes: int = MEGABYTES["HEEDMAP_SESSION_MB"] * MEGABYTE
    server_bytes: int = MEGABYTES["HEEDMAP_SERVER_MB"] * MEGABYTE
    checkpoints: int = 8

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "UploadLimits":
        """The limits, with HEEDMAP_UPLOAD_MB, _SESSION_MB and _SERVER_MB in the place of the defaults.

        Raises:
            CheckpointError: one of them is no number of megabytes.
        """
        names = {"UPLOAD": "file_bytes", "SESSION": "session_bytes", "SERVER": "server_bytes"}
        found = {field: n_bytes(environment, f"HEEDMAP_{name}_MB") for name, field in names.items()}
        return cls(**found)


class Ledger:
    """How many bytes all sessions hold. Threads and finalizers write it, the latter at any moment of a thread."""

    def __init__(self) -> None:
        self._lock, self._held = RLock(), 0

    @property
    def held(self) -> int:
        """Bytes of all uploads of all sessions."""
        return self._held

    def add(self, n_bytes: int, limit: int) -> None:
        """Count bytes before they are read.

        Raises:
            CheckpointError: all sessions together would hold more than `limit`.
        """
        with self._lock:
            if self._held + n_bytes > limit:
                raise CheckpointError("server_full", held=megabytes(self._held), more=megabytes(n_bytes))
            self._held += n_bytes

    def strike(self, n_bytes: int) -> None:
        """Count them no more."""
        with self._lock:
            self._held -= n_bytes


LEDGER = Ledger()


class Counted:
    """Bytes in the ledger: struck off when nothing refers to this any more, at once where a block around it fails."""

    def __init__(self, n_bytes: int, limit: int) -> None:
        """Count them.

        Raises:
            CheckpointError: all sessions together would hold more than `limit`.
        """
        LEDGER.add(n_bytes, limit)
        self.n_bytes = n_bytes
        self.strike = weakref.finalize(self, LEDGER.strike, n_bytes)
        """Count them no more; once is enough."""

    def __enter__(self) -> "Counted":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # at once: the error's traceback may live on
            self.strike()


def megabytes(n_bytes: int) -> str:
    """A size for a sentence."""
    return f"{n_bytes / MEGABYTE:,.1f} MB"


def check_size(name: str, size: int, limits: UploadLimits) -> None:
    """Whether a file may be so large.

    Raises:
        CheckpointError: it may not.
    """
    if size > limits.file_bytes:
        most = megabytes(limits.file_bytes)
        raise CheckpointError("upload_too_large", name=name, found=megabytes(size), most=most)


def check_room(more: int, limits: UploadLimits, *, is_new: bool = True) -> None:
    """Whether the session may hold so many more bytes, and one thing more where it `is_new`.

    Raises:
        CheckpointError: it may not.
    """
    held = session_resources.mine()
    count, together = len(held.uploads), held.n_bytes + more
    if is_new and count >= limits.checkpoints:
        raise CheckpointError("upload_too_many", count=count)
    if together > limits.session_bytes:
        raise CheckpointError("uploads_too_large", found=megabytes(together), most=megabytes(limits.session_bytes))


def free_ref(stem: str, origin: Origin = Origin.UPLOAD) -> CheckpointRef:
    """One that nothing of the session has, of plain characters, so that it can stand in an address."""
    uploads = session_resources.mine().uploads
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:60] or "checkpoint"
    ref, count = CheckpointRef(origin, plain), 2
    while ref in uploads:
        ref, count = CheckpointRef(origin, f"{plain}-{count}"), count + 1
    return ref
