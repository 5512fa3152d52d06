"""Checkpoints that a user uploads: they live in the memory of their session, and nowhere else.

Another session has no way to them, and they go when it ends. What they hold is bounded for a session and for all
sessions together. The app writes none of it to disk; while a file of more than 1 MB arrives, the web server keeps it in
a temporary file without a name (see TMPDIR), which is gone as soon as it has arrived.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol

from transformer import Checkpoint
from transformer.checkpoint import weight_files
from transformer.checkpoint.foreign.bundle import Bundle, bundle, is_vocabulary
from transformer.checkpoint.load import vocabulary_files
from transformer.checkpoint.weight_files import find_files
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.safe.contents import Contents
from transformer.safe.unpacked import PrivateFolder, free_bytes
from ui.store import folders, log, session_resources, upload_guard, upload_quota
from ui.store.budget import MODELS
from ui.store.cache import in_session
from ui.store.machine import give_back
from ui.store.refs import CheckpointRef, Revision
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


@dataclass(eq=False)
class Upload:
    """One checkpoint of the user's session. `token` stands in cache keys: nobody else can guess it.

    `counted` counts in the ledger what each file takes, by its name, or a folder as a whole. A model's folder that says
    all of itself lies in `folder`, and has no bundle.
    """

    bundle: Bundle | None
    counted: dict[str, Counted]
    folder: PrivateFolder | None = None
    token: int = field(default_factory=lambda: secrets.randbits(62))

    @property
    def n_bytes(self) -> int:
        """Bytes of its files."""
        return sum(one.n_bytes for one in self.counted.values())

    def bring(self, files: Mapping[str, BufferedIOBase], counted: Mapping[str, Counted]) -> None:
        """Read with these vocabularies too from now on, or instead of those that have no place beside them.

        Raises:
            CheckpointError: one of them cannot be read.
        """
        before = self._files
        self._read(before.beside(files))
        for name, one in counted.items():
            replaced = self.counted.get(name)
            self.counted[name] = one
            if replaced is not None:
                replaced.strike()
        self._let_go_of(before.vocabularies.keys() - self._files.vocabularies.keys())

    def remove(self, file: str) -> None:
        """Read without one of the vocabularies from now on."""
        self._read(self._files.without(file))
        self._let_go_of({file})

    @property
    def added(self) -> dict[str, int]:
        """The bytes of each file beside the weights that can be removed alone, by name."""
        names = sorted(self.bundle.vocabularies) if self.bundle is not None else []
        return {name: self.counted[name].n_bytes for name in names}

    def _read(self, bundle: Bundle) -> None:
        """With a new token: what was computed before is of other files."""
        self.bundle, self.token = bundle, secrets.randbits(62)

    def _let_go_of(self, files: Collection[str]) -> None:
        for file in files:
            self.counted.pop(file).strike()

    @property
    def takes_words(self) -> bool:
        """Whether vocabularies may be brought to it later: a folder has its own."""
        return self.bundle is not None

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

    def weight_bytes(self) -> int:
        """Bytes of its weights."""
        if self.folder is not None:
            return sum(file.stat().st_size for file in find_files(self.folder.path).values())
        return self._files.n_bytes

    def let_go(self) -> None:
        """Remove its folder, if it has one."""
        if self.folder is not None:
            self.folder.remove()


class Uploads(CheckpointSource):
    """The checkpoints that this session uploaded; no other has a way to them."""

    def refs(self) -> list[CheckpointRef]:
        return list(uploads())

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

    def n_bytes(self, ref: CheckpointRef) -> int:
        return upload(ref).weight_bytes()


def uploads() -> dict[CheckpointRef, Upload]:
    """The session's uploads."""
    return session_resources.mine().uploads


def upload(ref: CheckpointRef) -> Upload:
    """An upload of the session's.

    Raises:
        CheckpointError: it has none of this name.
    """
    if ref not in uploads():
        raise CheckpointError("upload_not_here", name=str(ref))
    return uploads()[ref]


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

    Vocabularies that come without weights go to the upload called `chosen`, and so does the other half of a recurrent
    pair, one half of which it is: both are then one upload. Whatever becomes of the files, they are
    closed, and the copies of the web server let go: both would stay in memory until the session ends.

    Raises:
        CheckpointError: something is refused, of no use, or more than a session or the server may hold.
    """
    upload_guard.let_go(files)
    try:
        return _taken(files, chosen, limits or UploadLimits.of(os.environ))
    finally:
        for file in files:
            file.close()


def _taken(files: Sequence[Any], chosen: CheckpointRef | None, limits: UploadLimits) -> CheckpointRef:
    for file in files:
        upload_quota.check_size(file.name, file.size, limits)
    streams: dict[str, BufferedIOBase] = {Path(file.name).name: file for file in files}
    if len(streams) < len(files):
        raise CheckpointError("upload_same_names")
    held = uploads()
    extends = chosen in held and held[chosen].takes_words and all(map(is_vocabulary, streams))
    ref = chosen if extends else None
    extended = None if ref is None else held[ref]
    sizes = {name: file.size for name, file in zip(streams, files, strict=True)}
    replaced = sum(n_bytes for name, n_bytes in extended.added.items() if name in sizes) if extended else 0
    upload_quota.check_room(sum(sizes.values()) - replaced, limits, is_new=extended is None)
    counted = _counted(sizes, limits)
    kept = False
    try:
        if ref is not None and extended is not None:
            extended.bring(streams, counted)
        elif (name := folders.folder_name(streams)) is not None:
            folder, own = folders.brought(streams, name, limits, room(limits))
            ref = upload_quota.free_ref(name)
            held[ref] = Upload(None, {name: own}, folder=folder)
            _strike(counted)  # what arrived is let go, the folder is kept
        else:
            files_together = bundle(streams)
            same = _same_files(files_together)
            if same is not None:  # kept once
                return same
            first = held.get(chosen) if chosen is not None else None
            pair = first.bundle.with_half(files_together) if first is not None and first.bundle is not None else None
            if chosen is not None and first is not None and pair is not None:
                ref = upload_quota.free_ref(pair.name)
                held[ref] = Upload(pair, _of_both(first.counted, counted, pair.vocabularies))
                del held[chosen]
            else:
                ref = upload_quota.free_ref(files_together.name)
                held[ref] = Upload(files_together, counted)
        kept = True
    finally:
        if not kept:  # at once: the error's traceback may live on
            _strike(counted)
    return ref


def _counted(sizes: Mapping[str, int], limits: UploadLimits) -> dict[str, Counted]:
    """Each file in the ledger.

    Raises:
        CheckpointError: the server holds too much; none of them is counted then.
    """
    counted: dict[str, Counted] = {}
    try:
        for name, n_bytes in sizes.items():
            counted[name] = Counted(n_bytes, limits.server_bytes)
    except CheckpointError:
        _strike(counted)
        raise
    return counted


def _of_both(first: Mapping[str, Counted], then: Mapping[str, Counted], added: Collection[str]) -> dict[str, Counted]:
    """The files of two halves of a pair, which may have the same names; of two such vocabularies the later one is."""
    both = dict(then)
    for name, one in first.items():
        if name in then and name in added:
            one.strike()
        else:
            both[f"{name} (1)" if name in then else name] = one
    return both


def _strike(counted: Mapping[str, Counted]) -> None:
    for one in counted.values():
        one.strike()


def _same_files(brought: Bundle) -> CheckpointRef | None:
    """The upload that holds the same weights beside the same vocabularies and config."""
    for ref, held in uploads().items():
        found = held.bundle
        if found is not None:
            parts = ((one.fingerprint, dict(one.vocabularies), dict(one.contents.settings)) for one in (found, brought))
            if next(parts) == next(parts):
                return ref
    return None


def forget_file(ref: CheckpointRef, file: str) -> None:
    """Let go of one vocabulary of an upload, and of what was computed with it; the rest stays."""
    held = session_resources.mine()
    found = held.uploads.get(ref)
    if found is not None and file in found.added:
        found.remove(file)
        held.results.clear()
        give_back()


def forget(ref: CheckpointRef) -> None:
    """Let go of an upload, and of all that was computed from the session's uploads."""
    held = session_resources.mine()
    found = held.uploads.pop(ref, None)
    if found is not None:
        found.let_go()
    held.results.clear()
    give_back()
