"""Record files that a user brings: read by a worker, kept in the memory of their session, and gone with it."""

import os
import secrets
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from transformer.attention.record_files.contents import ENDING
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.runs.any_model import AnyRun
from ui.store import session_resources, upload_guard, upload_quota
from ui.store.machine import give_back
from ui.store.refs import CheckpointRef, Origin, Revision
from ui.store.upload_quota import Counted, UploadLimits

LONGEST_TEXT, LONGEST_NAME = 10_000, 200
"""Characters that are shown of what a record's model read, and of the model's name."""


@dataclass(frozen=True, eq=False)
class Brought:
    """A record of the user's session as a run; `token`, which nobody can guess, stands in cache keys."""

    run: AnyRun
    counted: tuple[Counted, ...]
    token: int = field(default_factory=lambda: secrets.randbits(62))

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes."""
        return sum(one.n_bytes for one in self.counted)


def is_record(file: str) -> bool:
    """Whether a file of this name is a record."""
    return Path(file).suffix.lower() == ENDING


def names() -> list[str]:
    """The session's records, the earliest first."""
    return [str(ref) for ref in session_resources.mine().records]


def brought(name: str) -> Brought:
    """A record of the session's.

    Raises:
        CheckpointError: it has none of this name.
    """
    found: Brought | None = session_resources.mine().records.get(CheckpointRef.parse(name))
    if found is None:
        raise CheckpointError("upload_not_here", name=name)
    return found


def revision(name: str) -> Revision:
    """What stands in keys of what is computed from a record, which belongs to its session."""
    return Revision(CheckpointRef.parse(name), brought(name).token)


def take(file: Any, limits: UploadLimits | None = None) -> str:
    """Read a record file, and keep its record in the session; the copy of the web server is let go in any case.

    Raises:
        CheckpointError: it is refused, or more than a session or the server may hold.
    """
    upload_guard.let_go([file])
    try:
        return _taken(file, Path(file.name).name, file.size, limits or UploadLimits.of(os.environ))
    finally:
        file.close()


def forget(name: str) -> None:
    """Let go of a record, and of all that was computed from what the session brought."""
    held = session_resources.mine()
    held.records.pop(CheckpointRef.parse(name), None)
    held.results.clear()
    give_back()


def _taken(stream: BufferedIOBase, name: str, size: int, limits: UploadLimits) -> str:
    upload_quota.check_size(name, size, limits)
    upload_quota.check_room(size, limits)
    counted = [Counted(size, limits.server_bytes)]
    try:
        record = isolated.open_record(stream, name)
        more = record.kept_bytes - size
        if more > 0:
            upload_quota.check_room(size + more, limits)
            counted.append(Counted(more, limits.server_bytes))
    except CheckpointError:
        for one in counted:  # at once: the error's traceback may live on
            one.strike()
        raise
    ref = upload_quota.free_ref(Path(name).stem, Origin.RECORD)
    model = record.model.rpartition("/")[2] or ref.name  # never the name of a checkpoint of this session
    run = AnyRun(model[:LONGEST_NAME], record.text[:LONGEST_TEXT], record)  # each picture's facts hold both
    session_resources.mine().records[ref] = Brought(run, tuple(counted))
    return str(ref)
