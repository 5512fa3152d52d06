"""A model's folder among uploads: a ZIP, or its files side by side, put where the library that reads it finds them.

That place is in memory where the system has one (see `unpacked`), is counted like every upload, and goes with it.
"""

import io
import json
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from pathlib import Path

from transformer.checkpoint.weight_files import CONFIG, CONFIG_BYTES
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.safe.limits import ReadLimits
from transformer.safe.unpacked import PrivateFolder, check_room
from transformer.safe.zips import KEPT, ZIP_ENDING, is_kept
from ui.store.upload_quota import Counted, UploadLimits, megabytes

CHUNK = 1024 * 1024


def folder_name(files: Mapping[str, BufferedIOBase]) -> str | None:
    """What the model's folder is called that these files are; None if they are none.

    Raises:
        CheckpointError: there are other files beside a ZIP.
    """
    zips = [name for name in files if name.lower().endswith(ZIP_ENDING)]
    if zips and len(files) > 1:
        raise CheckpointError("zip_alone", name=zips[0])
    if zips:
        return Path(zips[0]).stem
    return _model_type(files[CONFIG]) if CONFIG in files else None


def brought(
    files: Mapping[str, BufferedIOBase], name: str, limits: UploadLimits, room: int
) -> tuple[PrivateFolder, Counted]:
    """The folder, once a worker could load it and run its model, and what counts it.

    It counts as many bytes as its files or its model take, whichever are more: shared layers and tables that are
    computed lie in no file.

    Raises:
        CheckpointError: it is refused, or larger than a session or the server may hold.
    """
    own: Counted | None = None
    if not any(file.lower().endswith(ZIP_ENDING) for file in files):
        useless = tuple(sorted(file for file in files if not is_kept(file)))
        if useless:
            raise CheckpointError("folder_file_of_no_use", files=useless, endings=KEPT)
        check_room(sum(stream.seek(0, io.SEEK_END) for stream in files.values()), name)
        folder = PrivateFolder(name)
    else:
        folder, own = _unzipped(*next(iter(files.items())), limits, room)
    try:
        if own is None:
            for file, stream in files.items():
                folder.put(file, _pieces(stream))
        held = _held(folder, isolated.tried_folder(folder.path).held_bytes, room)
        if own is not None:
            own.strike()
        return folder, Counted(held, limits.server_bytes)
    except BaseException:
        folder.remove()
        if own is not None:
            own.strike()
        raise


def _held(folder: PrivateFolder, model_bytes: int, room: int) -> int:
    """Bytes that a folder counts for: those of its files or of its model, whichever are more."""
    files_bytes = sum(file.stat().st_size for file in folder.path.iterdir())
    if model_bytes > room:
        taken = {"found": megabytes(model_bytes), "files": megabytes(files_bytes), "most": megabytes(room)}
        raise CheckpointError("upload_model_large", name=folder.path.name, **taken)
    return max(model_bytes, files_bytes)


def _unzipped(source: str, stream: BufferedIOBase, limits: UploadLimits, room: int) -> tuple[PrivateFolder, Counted]:
    kept: list[Counted] = []

    def count(n_bytes: int) -> None:
        if n_bytes > room:
            found = limits.session_bytes - room + n_bytes
            raise CheckpointError("uploads_too_large", found=megabytes(found), most=megabytes(limits.session_bytes))
        check_room(n_bytes, source)
        kept.append(Counted(n_bytes, limits.server_bytes))

    try:
        return isolated.unpack(stream, source, count, ReadLimits(file_bytes=limits.session_bytes)), kept[0]
    except BaseException:
        for one in kept:
            one.strike()
        raise


def _pieces(stream: BufferedIOBase) -> Iterator[bytes]:
    stream.seek(0)
    while piece := stream.read(CHUNK):
        yield piece


def _model_type(stream: BufferedIOBase) -> str | None:
    """What a config.json of the transformers library names; None for one of ours, or what cannot be read."""
    if stream.seek(0, io.SEEK_END) > CONFIG_BYTES:
        return None
    stream.seek(0)
    try:
        about = json.loads(stream.read())
    except (ValueError, RecursionError):
        return None
    found = about.get("model_type") if isinstance(about, dict) and "architecture" not in about else None
    return found if isinstance(found, str) else None
