"""Checkpoints and records that a user uploads: they live in the memory of their session, and nowhere else.

Another session has no way to them, and they go when it ends. What they hold is bounded for a session and for all
sessions together. The app writes none of it to disk; while a file of more than 1 MB arrives, the web server keeps it in
a temporary file without a name (see TMPDIR), which is gone as soon as it has arrived. A model's folder, as a ZIP or its
files side by side, is put where the library that reads it finds them: in memory where the system has such a place.
"""

import io
import json
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from heedmap import Record
from heedmap.attention.record_files import is_record
from heedmap.checkpoint import weight_files
from heedmap.checkpoint.foreign.bundle import Bundle, bundle, is_vocabulary
from heedmap.checkpoint.weight_files import CONFIG, CONFIG_BYTES
from heedmap.checkpoint.worker import isolated
from heedmap.errors import CheckpointError
from heedmap.runs.any_model import ModelRun
from heedmap.safe.limits import ReadLimits
from heedmap.safe.zips import KEPT, ZIP_ENDING, PrivateFolder, check_room, is_kept
from ui.store import limits, session_resources, upload_guard
from ui.store.limits import SERVER, SESSION, UPLOAD
from ui.store.refs import CheckpointRef, RefSource
from ui.store.upload_guard import CountedBytes, megabytes

ENDINGS = (
    *(ending.removeprefix(".") for ending in (*weight_files.ENDINGS, *weight_files.LIKE_WEIGHTS)),
    *("json", "model", "txt", "vocab", "pkl", "pickle", "zip", "npz"),
)
"""What may be chosen; some only to be told what it is, and how to bring its weights."""

MOST = 8
"""Checkpoints and records that a session may hold."""

CHUNK = 1024 * 1024
"""Bytes that are copied at a time."""

LONGEST_TEXT, LONGEST_NAME = 10_000, 200
"""Characters that are shown of what a record's model read, and of the model's name."""


@dataclass(frozen=True, eq=False)
class Upload:
    """One checkpoint or record of the user's session. `token` stands in cache keys: nobody else can guess it.

    What was brought is a model's folder that says all of itself, other files, or a record: a run. `counted` counts it
    in the ledger.
    """

    counted: tuple[CountedBytes, ...]
    brought: PrivateFolder | Bundle | ModelRun
    token: int = field(default_factory=lambda: secrets.randbits(62))

    @property
    def n_bytes(self) -> int:
        """Bytes of its files."""
        return sum(one.n_bytes for one in self.counted)


def uploads(origin: RefSource = RefSource.UPLOAD) -> list[CheckpointRef]:
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


def folder(ref: CheckpointRef) -> Path:
    """Where a model's folder that was brought lies."""
    found = upload(ref).brought
    if not isinstance(found, PrivateFolder):
        raise CheckpointError("checkpoint_not_here", name=str(ref))
    return found.path


def room() -> int:
    """Bytes that the session may still bring."""
    return max(0, limits.n_bytes(SESSION) - session_resources.mine().n_bytes)


def may_arrive() -> int:
    """Bytes of a file that may arrive at this moment; more would be refused by the web server, without a sentence."""
    try:
        free = shutil.disk_usage(tempfile.gettempdir()).free
    except FileNotFoundError:  # of all places for temporary files, none takes even a byte
        free = 0
    return max(0, min(limits.n_bytes(UPLOAD), limits.n_bytes(SERVER) - upload_guard.LEDGER.n_bytes, free))


def take(files: Sequence[Any], chosen: CheckpointRef | None) -> CheckpointRef:
    """Read what was brought, one record or the files of one checkpoint, and keep it in the session.

    Vocabularies that come without weights go to the upload called `chosen`. Whatever becomes of the files, they are
    closed, and the copies of the web server let go: both would stay in memory until the session ends.

    Raises:
        CheckpointError: something is refused, of no use, or more than a session or the server may hold.
    """
    with upload_guard.reading(files):
        most = limits.n_bytes(UPLOAD)
        for file in files:
            if file.size > most:
                sizes = {"found": megabytes(file.size), "most": megabytes(most)}
                raise CheckpointError("upload_too_large", name=file.name, **sizes)
        streams: dict[str, BufferedIOBase] = {Path(file.name).name: file for file in files}
        if len(streams) < len(files):
            raise CheckpointError("upload_same_names")
        own, size, first = session_resources.mine().uploads, sum(file.size for file in files), next(iter(streams))
        before: Upload | None = own.get(chosen) if all(map(is_vocabulary, streams)) else None
        weights = before.brought if before is not None else None
        if not isinstance(weights, Bundle) and len(own) >= MOST:
            raise CheckpointError("upload_too_many", count=len(own))
        _check_room(size)
        with CountedBytes(size) as counted:
            if chosen is not None and before is not None and isinstance(weights, Bundle):
                own[chosen] = Upload((*before.counted, counted), weights.beside(streams))
                return chosen
            if len(streams) == 1 and is_record(first):
                return _kept(Path(first).stem, RefSource.RECORD, _record(streams[first], first, counted))
            if (name := _folder_name(streams)) is not None:
                kept = _folder(streams, name)
                counted.strike()  # what arrived is let go, the folder is kept
                return _kept(name, RefSource.UPLOAD, kept)
            together = bundle(streams)
            return _kept(together.name, RefSource.UPLOAD, Upload((counted,), together))


def forget(ref: CheckpointRef) -> None:
    """Let go of an upload or a record, and of all that was computed from what the session brought."""
    own = session_resources.mine()
    found: Upload | None = own.uploads.pop(ref, None)
    if found is not None and isinstance(found.brought, PrivateFolder):
        found.brought.remove()
    own.results.clear()
    limits.give_back()


def _check_room(more: int) -> None:
    """Refuse bytes beyond what the session may hold."""
    together, most = session_resources.mine().n_bytes + more, limits.n_bytes(SESSION)
    if together > most:
        raise CheckpointError("uploads_too_large", found=megabytes(together), most=megabytes(most))


def _kept(stem: str, origin: RefSource, brought: Upload) -> CheckpointRef:
    """Keep an upload under a name that nothing of the session has, of plain characters, to stand in an address."""
    own = session_resources.mine().uploads
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:60] or "checkpoint"
    ref, count = CheckpointRef(origin, plain), 2
    while ref in own:
        ref, count = CheckpointRef(origin, f"{plain}-{count}"), count + 1
    own[ref] = brought
    return ref


def _record(stream: BufferedIOBase, name: str, counted: CountedBytes) -> Upload:
    """A record, which counts as its file, or as what it takes unpacked where that is more."""
    record = isolated.open_record(stream, name)
    more = max(0, record.kept_bytes - counted.n_bytes)
    _check_room(counted.n_bytes + more)
    return Upload((counted, CountedBytes(more)), as_run(record, Path(name).stem))


def as_run(record: Record, name: str) -> ModelRun:
    """A record that a file holds as a run of the model that it names; `name` where it names none."""
    model = record.model.rpartition("/")[2] or name  # never the name of a checkpoint that is here
    return ModelRun(model[:LONGEST_NAME], record.text[:LONGEST_TEXT], record)  # each picture's facts hold both


def _folder_name(files: Mapping[str, BufferedIOBase]) -> str | None:
    """What the model's folder is called that these files are; None if they are none."""
    zips = [name for name in files if name.lower().endswith(ZIP_ENDING)]
    if zips and len(files) > 1:
        raise CheckpointError("zip_alone", name=zips[0])
    if zips:
        return Path(zips[0]).stem
    return _described_model(files[CONFIG]) if CONFIG in files else None


def _described_model(stream: BufferedIOBase) -> str | None:
    """What a config.json of ours or of the transformers library names; None where it says less, or cannot be read."""
    if stream.seek(0, io.SEEK_END) > CONFIG_BYTES:
        return None
    stream.seek(0)
    try:
        about = json.loads(stream.read())
    except (ValueError, RecursionError):
        return None
    found = (about.get("architecture") or about.get("model_type")) if isinstance(about, dict) else None
    return found if isinstance(found, str) else None


def _folder(files: Mapping[str, BufferedIOBase], name: str) -> Upload:
    """The folder, once a worker could load it and run its model.

    It counts as many bytes as its files or its model take: shared layers and tables that are computed lie in no file.
    """
    with ExitStack() as on_failure, ExitStack() as unpacked:

        def count(n_bytes: int) -> None:
            _check_room(n_bytes)
            check_room(n_bytes, source)
            unpacked.callback(CountedBytes(n_bytes).strike)

        source, stream = next(iter(files.items()))
        if source.lower().endswith(ZIP_ENDING):
            folder = isolated.unpack(stream, source, count, ReadLimits(file_bytes=limits.n_bytes(SESSION)))
            on_failure.callback(folder.remove)
        else:
            useless = tuple(sorted(file for file in files if not is_kept(file)))
            if useless:
                raise CheckpointError("folder_file_of_no_use", files=useless, endings=KEPT)
            check_room(sum(one.seek(0, io.SEEK_END) for one in files.values()), name)
            folder = PrivateFolder(name)
            on_failure.callback(folder.remove)
            for file, one in files.items():
                one.seek(0)
                folder.put(file, iter(partial(one.read, CHUNK), b""))
        model_bytes, left = isolated.tried_folder(folder.path).memory_bytes, room()
        files_bytes = sum(file.stat().st_size for file in folder.path.iterdir())
        if model_bytes > left:
            taken = {"found": megabytes(model_bytes), "files": megabytes(files_bytes), "most": megabytes(left)}
            raise CheckpointError("upload_model_large", name=folder.path.name, **taken)
        kept = Upload((CountedBytes(max(model_bytes, files_bytes)),), folder)
        on_failure.pop_all()
        return kept
