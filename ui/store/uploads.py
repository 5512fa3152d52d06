"""Checkpoints that a user uploads: they live in the memory of their session, and nowhere else.

Another session has no way to them, and they go when it ends. What they hold is bounded for a session and for all
sessions together. The app writes none of it to disk; while a file of more than 1 MB arrives, the web server keeps it in
a temporary file without a name (see TMPDIR), which is gone as soon as it has arrived.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol

from transformer import Checkpoint
from transformer.checkpoint import weight_files
from transformer.checkpoint.foreign.bundle import Bundle, bundle, is_vocabulary
from transformer.checkpoint.load import vocabulary_files
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.runs.any_model import ModelRun
from transformer.safe.contents import Contents
from transformer.safe.unpacked import PrivateFolder, free_bytes
from ui.store import folders, log, session_resources, upload_guard, upload_quota
from ui.store.budget import MODELS
from ui.store.cache import in_session
from ui.store.machine import give_back
from ui.store.refs import CheckpointRef, Origin, Revision
from ui.store.session_resources import ends_without
from ui.store.source import Answers, CheckpointSource
from ui.store.upload_quota import Counted, UploadLimits
from ui.store.user_folder import architecture_of

ENDINGS = (
    *(ending.removeprefix(".") for ending in (*weight_files.ENDINGS, *weight_files.LIKE_WEIGHTS)),
    *("json", "model", "txt", "vocab", "pkl", "pickle", "zip", "npz"),
)
"""What may be chosen; some only to be told what it is, and how to bring its weights."""


N_MODELS = 3
"""Models of uploads that a session keeps ready to run; each takes about as much memory as its file."""


class File(Protocol):
    """A file as the browser sent it."""

    @property
    def name(self) -> str:
        """What it is called on the user's machine."""

    @property
    def size(self) -> int:
        """Its bytes."""


@dataclass(frozen=True, eq=False)
class Upload:
    """One checkpoint or record of the user's session. `token` stands in cache keys: nobody else can guess it.

    `counted` counts it in the ledger. A model's folder that says all of itself lies in `folder`, other files in a
    `bundle`; a record is a `run`.
    """

    counted: tuple[Counted, ...]
    bundle: Bundle | None = None
    folder: PrivateFolder | None = None
    run: ModelRun | None = None
    token: int = field(default_factory=lambda: secrets.randbits(62))

    @property
    def n_bytes(self) -> int:
        """Bytes of its files."""
        return sum(one.n_bytes for one in self.counted)

    def load(self, answers: Answers, name: str) -> Checkpoint:
        """It, ready to run.

        Raises:
            CheckpointError: it cannot be loaded.
        """
        if self.folder is not None:
            return replace(isolated.load_folder(self.folder.path), name=name, folder=None)
        return self._files.checkpoint(dict(answers), name)

    def contents(self) -> Contents:
        """Its tensors.

        Raises:
            CheckpointError: they cannot be read.
        """
        return self._files.contents if self.folder is None else isolated.read_path(self.folder.path)

    @property
    def _files(self) -> Bundle:
        if self.bundle is None:
            raise TypeError("an upload is a bundle of files, or a folder")
        return self.bundle


class Uploads(CheckpointSource):
    """The checkpoints that this session uploaded; no other has a way to them."""

    def refs(self) -> list[CheckpointRef]:
        return uploads()

    def stamp(self, ref: CheckpointRef) -> int:
        return upload(ref).token

    def fingerprint(self, ref: CheckpointRef) -> str | None:
        found = upload(ref).bundle
        return None if found is None else found.fingerprint

    def architecture(self, ref: CheckpointRef, answers: Answers) -> str | None:
        folder = upload(ref).folder
        if folder is not None:
            return architecture_of(lambda: isolated.tried_folder(folder.path).architecture)
        revision = Revision(ref, self.stamp(ref))
        return in_session(
            "architecture",
            (revision, answers),
            lambda: architecture_of(lambda: self.load(revision, answers).architecture),
        )

    def load(self, revision: Revision, answers: Answers) -> Checkpoint:
        ref = revision.ref

        def loaded() -> Checkpoint:
            with log.timed("checkpoint_loaded", name=ref.origin.value):  # what comes after that is the user's word
                found = upload(ref).load(answers, str(ref))
            ends_without(session_resources.mine(), found.model)
            return found

        return in_session("checkpoint", (revision, answers), loaded, N_MODELS, MODELS)

    def bundle(self, ref: CheckpointRef) -> Bundle | None:
        return upload(ref).bundle

    def contents(self, revision: Revision) -> Contents:
        return upload(revision.ref).contents()

    def vocabulary_files(self, ref: CheckpointRef) -> tuple[Path, ...] | None:
        folder = upload(ref).folder
        return None if folder is None else vocabulary_files(folder.path)


def uploads(origin: Origin = Origin.UPLOAD) -> list[CheckpointRef]:
    """The session's uploads, or its records."""
    return [ref for ref in session_resources.mine().uploads if ref.origin is origin]


def upload(ref: CheckpointRef) -> Upload:
    """An upload of the session's.

    Raises:
        CheckpointError: it has none of this name.
    """
    found: Upload | None = session_resources.mine().uploads.get(ref)
    if found is None:
        raise CheckpointError("upload_not_here", name=str(ref))
    return found


def room(limits: UploadLimits) -> int:
    """Bytes that the session may still bring."""
    return max(0, limits.session_bytes - session_resources.mine().n_bytes)


def may_arrive(limits: UploadLimits) -> int:
    """Bytes of a file that may arrive at this moment; more would be refused by the web server, without a sentence."""
    try:
        free = shutil.disk_usage(tempfile.gettempdir()).free
    except FileNotFoundError:  # of all places for temporary files, none takes even a byte
        free = 0
    return max(0, min(limits.file_bytes, limits.server_bytes - upload_quota.LEDGER.held, free))


def folder_may_hold(limits: UploadLimits) -> int:
    """Bytes that the files of a model's folder may have together at this moment, unpacked."""
    return min(limits.session_bytes, free_bytes())


def take(files: Sequence[Any], chosen: CheckpointRef | None, limits: UploadLimits | None = None) -> CheckpointRef:
    """Read what was brought and keep it in the session.

    Vocabularies that come without weights go to the upload called `chosen`. Whatever becomes of the files, they are
    closed, and the copies of the web server let go: both would stay in memory until the session ends.

    Raises:
        CheckpointError: something is refused, of no use, or more than a session or the server may hold.
    """
    with upload_guard.reading(files):
        return _taken(files, chosen, limits or UploadLimits.of(os.environ))


def _taken(files: Sequence[Any], chosen: CheckpointRef | None, limits: UploadLimits) -> CheckpointRef:
    for file in files:
        upload_quota.check_size(file.name, file.size, limits)
    streams: dict[str, BufferedIOBase] = {Path(file.name).name: file for file in files}
    if len(streams) < len(files):
        raise CheckpointError("upload_same_names")
    held, size = session_resources.mine().uploads, sum(file.size for file in files)
    before = held.get(chosen) if chosen is not None and all(map(is_vocabulary, streams)) else None
    extended = None if before is None else before.bundle
    upload_quota.check_room(size, limits, is_new=extended is None)
    with Counted(size, limits.server_bytes) as counted:
        if chosen is not None and before is not None and extended is not None:
            held[chosen] = Upload((*before.counted, counted), extended.beside(streams))
            return chosen
        if (name := folders.folder_name(streams)) is not None:
            folder, own = folders.brought(streams, name, limits, room(limits))
            counted.strike()  # what arrived is let go, the folder is kept
            brought = Upload((own,), folder=folder)
        else:
            files_together = bundle(streams)
            name, brought = files_together.name, Upload((counted,), files_together)
        ref = upload_quota.free_ref(name)
        held[ref] = brought
    return ref


def forget(ref: CheckpointRef) -> None:
    """Let go of an upload or a record, and of all that was computed from what the session brought."""
    held = session_resources.mine()
    found = held.uploads.pop(ref, None)
    if found is not None and found.folder is not None:
        found.folder.remove()
    held.results.clear()
    give_back()
