"""Record files: those that a user brings, which live in the session, and those of the user's folder, which all share.

A worker reads both.
"""

import os
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from transformer import Record
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.runs.any_model import ModelRun
from ui.store import session_resources, upload_guard, upload_quota, uploads, user_folder
from ui.store.cache import cached
from ui.store.file_versions import stamp_of
from ui.store.refs import CheckpointRef, Origin, Revision
from ui.store.upload_quota import Counted, UploadLimits

LONGEST_TEXT, LONGEST_NAME = 10_000, 200
"""Characters that are shown of what a record's model read, and of the model's name."""


def names() -> list[str]:
    """The session's records, the earliest first, then those of the user's folder."""
    return [str(ref) for ref in (*uploads.uploads(Origin.RECORD), *user_folder.own_records())]


def run(name: str) -> ModelRun:
    """What a record holds.

    Raises:
        CheckpointError: there is none of this name, or it is refused.
    """
    ref = CheckpointRef.parse(name)
    run = None if ref.origin is Origin.USER_FOLDER else uploads.upload(ref).run
    return _opened(revision(name)) if run is None else run


def revision(name: str) -> Revision:
    """What stands in keys of what is computed from a record; one that was brought belongs to its session.

    Raises:
        CheckpointError: there is none of this name.
    """
    ref = CheckpointRef.parse(name)
    if ref.origin is Origin.USER_FOLDER:
        return Revision(ref, stamp_of([_path(ref)]))
    return Revision(ref, uploads.upload(ref).token)


def _path(ref: CheckpointRef) -> Path:
    found = user_folder.own_records().get(ref)
    if found is None:
        raise CheckpointError("checkpoint_not_here", name=str(ref))
    return found


@cached(spinner="store.reading_file")
def _opened(revision: Revision) -> ModelRun:
    path = _path(revision.ref)
    with path.open("rb") as stream:
        return _as_run(isolated.open_record(stream, path.name), path.stem)


def _as_run(record: Record, name: str) -> ModelRun:
    model = record.model.rpartition("/")[2] or name  # never the name of a checkpoint that is here
    return ModelRun(model[:LONGEST_NAME], record.text[:LONGEST_TEXT], record)  # each picture's facts hold both


def take(file: Any, limits: UploadLimits | None = None) -> str:
    """Read a record file, and keep its record in the session; the copy of the web server is let go in any case.

    Raises:
        CheckpointError: it is refused, or more than a session or the server may hold.
    """
    with upload_guard.reading([file]):
        return _taken(file, Path(file.name).name, file.size, limits or UploadLimits.of(os.environ))


def _taken(stream: BufferedIOBase, name: str, size: int, limits: UploadLimits) -> str:
    upload_quota.check_size(name, size, limits)
    upload_quota.check_room(size, limits)
    with Counted(size, limits.server_bytes) as counted:
        record = isolated.open_record(stream, name)
        more = max(0, record.kept_bytes - size)
        upload_quota.check_room(size + more, limits)
        both = counted, Counted(more, limits.server_bytes)
    ref = upload_quota.free_ref(Path(name).stem, Origin.RECORD)
    session_resources.mine().uploads[ref] = uploads.Upload(both, run=_as_run(record, ref.name))
    return str(ref)
