"""A model's folder among uploads: a ZIP, or its files side by side, put where the library that reads it finds them.

That place is in memory where the system has one (see `unpacked`), is counted like every upload, and goes with it.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
    if not any(file.lower().endswith(ZIP_ENDING) for file in files):
        useless = tuple(sorted(file for file in files if not is_kept(file)))
        if useless:
            raise CheckpointError("folder_file_of_no_use", files=useless, endings=KEPT)
        check_room(sum(stream.seek(0, io.SEEK_END) for stream in files.values()), name)
        folder = PrivateFolder(name)
        with _removed_on_failure(folder):
            for file, stream in files.items():
                folder.put(file, _pieces(stream))
            return folder, _tried(folder, limits, room)
    ((source, stream),) = files.items()
    with ExitStack() as unpacked:

        def count(n_bytes: int) -> None:
            if n_bytes > room:
                found = limits.session_bytes - room + n_bytes
                raise CheckpointError("uploads_too_large", found=megabytes(found), most=megabytes(limits.session_bytes))
            check_room(n_bytes, source)
            unpacked.callback(Counted(n_bytes, limits.server_bytes).strike)

        folder = isolated.unpack(stream, source, count, ReadLimits(file_bytes=limits.session_bytes))
        with _removed_on_failure(folder):
            return folder, _tried(folder, limits, room)


@contextmanager
def _removed_on_failure(folder: PrivateFolder) -> Iterator[None]:
    try:
        yield
    except BaseException:
        folder.remove()
        raise


def _tried(folder: PrivateFolder, limits: UploadLimits, room: int) -> Counted:
    """What counts a folder, once a worker could load it and run its model."""
    return Counted(_held(folder, isolated.tried_folder(folder.path).held_bytes, room), limits.server_bytes)


def _held(folder: PrivateFolder, model_bytes: int, room: int) -> int:
    """Bytes that a folder counts for: those of its files or of its model, whichever are more."""
    files_bytes = sum(file.stat().st_size for file in folder.path.iterdir())
    if model_bytes > room:
        taken = {"found": megabytes(model_bytes), "files": megabytes(files_bytes), "most": megabytes(room)}
        raise CheckpointError("upload_model_large", name=folder.path.name, **taken)
    return max(model_bytes, files_bytes)


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
