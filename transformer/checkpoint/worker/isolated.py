"""What an untrusted file holds, found out in a worker process: this process receives numbers that it checks itself.

The dashboard reads uploads and the user's own folder only so. `load`, `read` and `inspect` do the same work in the
process that calls them.
"""

import io
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.huggingface.library import check_installed
from transformer.checkpoint.huggingface.pickled import as_safetensors
from transformer.checkpoint.load import find_files, load_with
from transformer.checkpoint.weight_files import is_hugging_face
from transformer.checkpoint.worker import wire_format
from transformer.checkpoint.worker.answers import answers_of, garbled, only
from transformer.checkpoint.worker.pool import Answer, Budget
from transformer.checkpoint.worker.trial import Trial
from transformer.checkpoint.worker.vocabularies import folder_tokenizer
from transformer.checkpoint.worker.wire_format import Block, GarbledError
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.arrays import ARRAY_LIMITS
from transformer.safe.contents import Contents
from transformer.safe.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits
from transformer.safe.refusal import refused
from transformer.safe.unpacked import PrivateFolder
from transformer.safe.zips import is_kept

FOLDER_MEMORY, FOLDER_SECONDS = 2048 * MEGABYTE, 5
"""The floor of what loading a folder, and a short run of its model, may take in a worker."""

_REMEMBERED = 256


def read_files(files: Mapping[str, BufferedIOBase], limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """As `loading.read_uploads`.

    Raises:
        CheckpointError: a file is refused, or takes too much memory or time.
    """
    source = ", ".join(files) or Message("nothing")
    sizes = {name: stream.seek(0, io.SEEK_END) for name, stream in files.items()}
    for name, size in sizes.items():
        if size > limits.file_bytes:
            remedy = Message("remedy_weights_alone")
            raise refused("file_large", name, remedy, found=size, most=limits.file_bytes)
    request = {"names": list(files), "limits": asdict(limits)}
    return _contents("read", source, request, list(files.values()), sum(sizes.values()), limits)


def read_path(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """As `loading.read`.

    Raises:
        CheckpointError: it is missing or refused, or takes too much memory or time.
    """
    size = sum(file.stat().st_size for file in find_files(path).values())
    return _contents("read", path.name, {"path": str(path.resolve()), "limits": asdict(limits)}, [], size, limits)


def read_arrays(stream: BufferedIOBase, name: str, limits: ReadLimits = ARRAY_LIMITS) -> Contents:
    """As `arrays.read_arrays`; packed or not, an array may have `limits.file_bytes`.

    Raises:
        CheckpointError: it is refused, or takes too much memory or time.
    """
    size = stream.seek(0, io.SEEK_END)
    if size > limits.file_bytes:
        raise refused("file_large", name, Message("remedy_save_arrays"), found=size, most=limits.file_bytes)
    request = {"name": name, "limits": asdict(limits)}
    return _contents("arrays", name, request, [stream], limits.file_bytes, limits)


def open_record(stream: BufferedIOBase, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> Record:
    """As `Record.open`, of an open file called `name`: only a worker reads it; what it writes anew is opened here.

    Raises:
        CheckpointError: it is refused, or takes too much memory or time.
    """
    size = stream.seek(0, io.SEEK_END)
    if size > limits.file_bytes:
        raise refused("file_large", name, Message("remedy_record_less"), found=size, most=limits.file_bytes)
    request = {"name": name, "limits": asdict(limits)}
    most = size + limits.header_bytes
    answers = answers_of("record", name, request, [stream], budget=Budget.of(most), most_bytes=most)
    found = only(answers, name).blocks
    try:
        return Record.of_bytes(b"".join(found), name)
    except CheckpointError as error:
        raise garbled(name, GarbledError(str(error))) from error


def unpack(
    stream: BufferedIOBase, name: str, on_size: Callable[[int], None], limits: ReadLimits = DEFAULT_LIMITS
) -> PrivateFolder:
    """The model's folder in a ZIP, in a place of its own; together its files have at most `limits.file_bytes`.

    `on_size` hears how large they are before the first one is unpacked, and may raise.

    Raises:
        CheckpointError: the archive is refused, or takes too much memory or time.
    """
    size = stream.seek(0, io.SEEK_END)
    request = {"name": name, "limits": asdict(limits)}
    most = limits.file_bytes
    found = PrivateFolder(Path(name).stem)
    try:
        answers = answers_of("unzip", name, request, [stream], budget=Budget.of(size + most), most_bytes=most)
        with closing(answers):
            told = next(answers, None)
            room = -1 if told is None else told.header.get("bytes")
            if not isinstance(room, int) or not 0 <= room <= most:
                raise garbled(name, GarbledError("no size of a folder"))  # noqa: TRY301
            on_size(room)
            for answer in answers:
                room -= _written(found, answer, name, room)
    except BaseException:
        found.remove()
        raise
    return found


def _written(folder: PrivateFolder, answer: Answer, source: str, room: int) -> int:
    """Write the file that a worker unpacked; how many bytes it has."""
    name, size = answer.header.get("name"), sum(map(len, answer.blocks))
    if not isinstance(name, str) or not is_kept(name) or size > room:
        raise garbled(source, GarbledError("no file of a folder"))
    try:
        folder.put(name, answer.blocks)
    except (ValueError, FileExistsError) as error:
        raise garbled(source, GarbledError("no file of a folder")) from error
    return size


def tried_folder(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Trial:
    """What a folder that says all about itself is, and costs, once it was loaded, run and tried in a worker.

    What is known of a folder is remembered for as long as no file in it changes.

    Raises:
        CheckpointError: it cannot be loaded, or that or its run takes too much memory or time.
    """
    if is_hugging_face(path):
        check_installed()
    files = [(file.name, file.stat()) for file in sorted(path.iterdir()) if file.is_file()]
    return _tried(path, limits, tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in files))


@lru_cache(_REMEMBERED)
def _tried(path: Path, limits: ReadLimits, stamps: tuple[tuple[str, int, int], ...]) -> Trial:
    n_bytes = sum(size for _, _, size in stamps)
    budget = Budget.of(n_bytes, FOLDER_MEMORY, FOLDER_SECONDS)
    with as_safetensors(path, limits, read_path) as folder:
        request = {"path": str(folder.resolve()), "limits": asdict(limits)}
        answers = answers_of("folder", path.name, request, budget=budget, other_library=is_hugging_face(path))
        try:
            found = Trial.of(only(answers, path.name).header)
        except GarbledError as error:
            raise garbled(path.name, error) from error
    found.check(path.name, n_bytes)
    return found


def load_folder(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Checkpoint:
    """As `load`, after a worker has survived it; its tokenizer works in a worker.

    Raises:
        CheckpointError: as `tried_folder`.
    """
    tried_folder(path, limits)
    with as_safetensors(path, limits, read_path) as folder:
        if folder == path:
            return load_with(path, limits, {}, folder_tokenizer)
        found = load_with(folder, limits, {}, lambda _: folder_tokenizer(path))
    return replace(found, folder=path)


def _contents(
    job: str, source: str, request: Mapping[str, Any], blocks: list[Block], size: int, limits: ReadLimits
) -> Contents:
    """What a job reads of a file; its tensors have at most `size` bytes."""
    answer = only(answers_of(job, source, request, blocks, budget=Budget.of(size), most_bytes=size), source)
    header = answer.header
    texts = [header.get(name) for name in ("source", "place", "format")]
    settings = header.get("settings")
    try:
        tensors = wire_format.unpacked(header.get("tensors"), answer.blocks, limits)
    except GarbledError as error:
        raise garbled(source, error) from error
    vocabularies = header.get("vocabularies")
    if not isinstance(vocabularies, dict):
        raise garbled(source, GarbledError("no table of vocabularies"))
    lists = [header.get("dropped"), header.get("others"), *vocabularies.values()]
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in lists):
        raise garbled(source, GarbledError("no list of texts"))
    plain = isinstance(settings, dict) and all(isinstance(one, str | int | float | bool) for one in settings.values())
    if not plain or not all(isinstance(text, str) for text in texts) or not tensors:
        raise garbled(source, GarbledError("no contents of a checkpoint"))
    name, place, file_format = (str(text) for text in texts)
    words = {str(key): tuple(tokens) for key, tokens in vocabularies.items()}
    dropped, others = tuple(header["dropped"]), tuple(header["others"])
    return Contents(name, tensors, dict(settings or {}), place, file_format, dropped, words, others)
