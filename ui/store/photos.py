"""Pictures that a session brings for models that look at them: kept packed, cut anew for each model."""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from transformer import Checkpoint
from transformer.checkpoint.safe.photos import ENDINGS, MOST_BYTES
from transformer.checkpoint.worker import apart
from transformer.pictures.photo import Photo, drawn
from transformer.runs.any_model import AnyRun
from transformer.runs.vision import frame_of, run_photo
from ui.store import arrivals, store
from ui.store.cache import cached, in_session, session_store
from ui.store.ledger import Counted, UploadLimits
from ui.store.refs import Revision

__all__ = ["DRAWN", "ENDINGS", "MOST_BYTES", "keep", "name", "names", "photo", "run"]

DRAWN = "drawn"
"""The picture that we drew, in addresses; those that were brought are called by their fingerprint."""

KIND, RUNS, KEPT = "photo", "photo-run", 4
"""Pictures that a session keeps."""


@dataclass(frozen=True, eq=False)
class _Kept:
    """A file as it came, and what stands for it in the ledger."""

    name: str
    data: bytes
    counted: Counted


def keep(file: Any, checkpoint: Checkpoint) -> str:
    """Keep a picture that was brought, once it was read in a worker process; what it is called in addresses.

    Raises:
        CheckpointError: it is refused, or the server has no room.
    """
    arrivals.let_go([file])
    try:
        data = file.read()
        apart.read_photo(data, file.name, frame_of(checkpoint))
    finally:
        file.close()
    token = hashlib.sha256(data).hexdigest()[:16]
    counted = Counted(len(data), UploadLimits.of(os.environ).server_bytes)
    others = {one: kept for one, kept in _kept().items() if one != token}
    session_store(KIND, 1, pinned=True).put(
        KIND, dict([*others.items(), (token, _Kept(file.name, data, counted))][-KEPT:])
    )
    return token


def names() -> list[str]:
    """The pictures of this session: those that were brought, the newest first, and the one that we drew."""
    return [*reversed(_kept()), DRAWN]


def name(token: str) -> str:
    """The name of the file that a picture came as; empty for the one that we drew."""
    return _kept()[token].name if token in _kept() else ""


def photo(checkpoint_name: str, token: str) -> Photo:
    """A picture of this session (one of `names`) as the checkpoint reads it.

    Raises:
        CheckpointError: it cannot be read.
    """
    checkpoint = store.checkpoint(checkpoint_name)
    if token == DRAWN:
        return drawn(frame_of(checkpoint))
    kept = _kept()[token]
    key = (token, frame_of(checkpoint))
    found: Photo = in_session("photo-cut", key, lambda: apart.read_photo(kept.data, kept.name, frame_of(checkpoint)), 4)
    return found


def run(checkpoint_name: str, token: str) -> AnyRun:
    """What a checkpoint did with a picture; of one that was brought, this session alone keeps it.

    Raises:
        CheckpointError: as `photo`.
    """
    revision = store.revision(checkpoint_name)
    if token == DRAWN:
        return _drawn(revision)
    seen = photo(checkpoint_name, token)
    found: AnyRun = in_session(RUNS, (revision, token), lambda: run_photo(store.load(revision), seen), KEPT)
    return found


@cached(spinner="store.running")
def _drawn(revision: Revision) -> AnyRun:
    checkpoint = store.load(revision)
    return run_photo(checkpoint, drawn(frame_of(checkpoint)))


def _kept() -> dict[str, _Kept]:
    found: dict[str, _Kept] = session_store(KIND, 1, pinned=True).find(KIND) or {}
    return found
