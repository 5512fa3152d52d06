"""What an untrusted file holds, found out in a worker process: this process receives numbers that it checks itself.

The dashboard reads uploads and the user's own folder only so. `load`, `read` and `inspect` do the same work in the
process that calls them. What is missing or refused, or takes too much memory or time, is a CheckpointError here.
"""

import io
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import torch

from ...attention.capture import recording
from ...attention.record import Record
from ...errors import CheckpointError, HeedmapError
from ...messages import Message
from ...nn.search import DecodingOptions, decode
from ...safe.arrays import ARRAY_LIMITS
from ...safe.contents import Contents
from ...safe.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits, refused
from ...safe.zips import PrivateFolder, is_kept
from ..checkpoint import ARCHITECTURES, Checkpoint
from ..foreign.vocabularies import sample_ids
from ..huggingface.library import check_installed
from ..huggingface.model import HUGGING_FACE
from ..load import find_files, load_with
from ..weight_files import is_hugging_face
from . import wire_format
from .pool import WORKERS, Budget, garbled
from .remote_tokenizer import folder_tokenizer
from .wire_format import Block, GarbledError

FOLDER_MEMORY, FOLDER_SECONDS = 2048 * MEGABYTE, 5
"""The floor of what loading a folder, and a short run of its model, may take in a worker."""

_REMEMBERED = 256


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


FORMS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("source", "place", "format"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("dropped", "others"), _are_texts),
    "settings": lambda value: (
        isinstance(value, dict) and all(isinstance(option, str | int | float | bool) for option in value.values())
    ),
    "vocabularies": lambda value: isinstance(value, dict) and all(map(_are_texts, value.values())),
}
"""What a worker says of the contents of a file beside its tensors, and whether that can be."""


def read_files(files: Mapping[str, BufferedIOBase], limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """As `loading.read_uploads`."""
    remedy = Message("remedy_weights_alone")
    size = sum(_size(stream, name, remedy, limits) for name, stream in files.items())
    return _contents("read", ", ".join(files) or Message("nothing"), limits, size, [*files.values()], names=[*files])


def read_path(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """As `loading.read`."""
    size = sum(file.stat().st_size for file in find_files(path))
    return _contents("read", path.name, limits, size, path=str(path.resolve()))


def read_arrays(stream: BufferedIOBase, name: str, limits: ReadLimits = ARRAY_LIMITS) -> Contents:
    """As `arrays.read_arrays`; packed or not, an array may have `limits.file_bytes`."""
    _size(stream, name, Message("remedy_save_arrays"), limits)
    return _contents("arrays", name, limits, limits.file_bytes, [stream])


def open_record(stream: BufferedIOBase, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> Record:
    """As `Record.open`, of an open file called `name`: only a worker reads it; what it writes anew is opened here."""
    most = _size(stream, name, Message("remedy_record_less"), limits) + limits.header_bytes
    found = WORKERS.answer("record", name, [stream], budget=Budget.of(most), limits=limits, most_bytes=most)
    try:
        return Record.of_bytes(b"".join(found.blocks), name)
    except CheckpointError as error:
        raise garbled(name, str(error)) from error


def unpack(
    stream: BufferedIOBase, name: str, on_size: Callable[[int], None], limits: ReadLimits = DEFAULT_LIMITS
) -> PrivateFolder:
    """The model's folder in a ZIP, in a place of its own; together its files have at most `limits.file_bytes`.

    `on_size` hears how large they are before the first one is unpacked, and may raise.
    """
    most = limits.file_bytes
    budget = Budget.of(stream.seek(0, io.SEEK_END) + most)
    found = PrivateFolder(Path(name).stem)
    job = WORKERS.answers("unzip", name, [stream], budget=budget, limits=limits, most_bytes=most)
    try:
        with closing(job) as answers:
            first = next(answers, None)
            room = -1 if first is None else first.header.get("bytes")
            if not isinstance(room, int) or not 0 <= room <= most:
                raise garbled(name, "no size of a folder")  # noqa: TRY301
            on_size(room)
            for answer in answers:
                file, size = answer.header.get("name"), sum(map(len, answer.blocks))
                if not isinstance(file, str) or not is_kept(file) or size > room:
                    raise garbled(name, "no file of a folder")  # noqa: TRY301
                found.put(file, answer.blocks)
                room -= size
    except (ValueError, FileExistsError) as error:
        found.remove()
        raise garbled(name, "no file of a folder") from error
    except BaseException:
        found.remove()
        raise
    return found


# What a model costs: it is built and run once where that is bounded, before the server does either. A few kilobytes can
# ask for a lot (layers that share their weights, tables that are computed), so a file's size says little.

KNOWN_ARCHITECTURES = {*ARCHITECTURES, *(f"{HUGGING_FACE}{kind}" for kind in ("seq2seq", "decoder", "encoder"))}

READ, WRITTEN = 32, 8
"""Tokens of the short text that is read, and tokens that an encoder-decoder writes for it."""

LOAD_SECONDS, RUN_SECONDS = 3.0, 1.0
"""Seconds of a processor for building a model, and for its run over the short text."""

MEGABYTES_A_SECOND = 20
"""Both may take a second more for so many megabytes of files."""

USUAL_GROWTH = 128 * MEGABYTE
"""How much a worker may grow without counting: the code of a family, and what is let go of while it loads."""

MOST_BYTES = 2.0**45
"""No process holds more bytes: the answer of a worker that says so is not understood."""


@dataclass(frozen=True)
class Trial:
    """What building and running a checkpoint once took: seconds of a processor, and the bytes that it then held."""

    architecture: str
    load_seconds: float
    run_seconds: float
    memory_bytes: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Trial":
        """What a worker reported; GarbledError where it is none of what `measured` says."""
        architecture = fields.get("architecture")
        if not isinstance(architecture, str) or architecture not in KNOWN_ARCHITECTURES:
            raise GarbledError("no known architecture")
        load, run = (_number(fields.get(name), float, math.inf) for name in ("load_seconds", "run_seconds"))
        weights, grown = (_number(fields.get(name), int, MOST_BYTES) for name in ("weight_bytes", "grown_bytes"))
        return cls(architecture, load, run, max(weights, grown - USUAL_GROWTH))

    def check(self, source: str, n_bytes: int) -> None:
        """Refuse what took too long to build, or to run over a short text, for a checkpoint of `n_bytes` of files."""
        spare = n_bytes / (MEGABYTES_A_SECOND * MEGABYTE)
        remedy = Message("remedy_smaller_model")
        if self.load_seconds > LOAD_SECONDS + spare:
            raise refused("trial_load", source, remedy, seconds=self.load_seconds, most=LOAD_SECONDS + spare)
        if self.run_seconds > RUN_SECONDS + spare:
            raise refused("trial_run", source, remedy, seconds=self.run_seconds, most=RUN_SECONDS + spare)


def measured(load: Callable[[], Checkpoint]) -> dict[str, Any]:
    """What loading a checkpoint and running it once took, as `Trial.of` reads it."""
    grown, start = _own_bytes(), time.process_time()
    found = load()
    built = time.process_time()
    run_once(found)
    done = time.process_time()
    tensors = (*found.model.parameters(), *found.model.buffers())
    return {
        "architecture": found.architecture,
        "load_seconds": built - start,
        "run_seconds": done - built,
        "weight_bytes": sum({one.data_ptr(): one.nbytes for one in tensors}.values()),
        "grown_bytes": max(0, _own_bytes() - grown),
    }


def run_once(found: Checkpoint) -> None:
    """Run a checkpoint over a short text of ordinary tokens, recorded as the dashboard's runs are.

    An encoder-decoder also writes a few tokens first. A text that the model refuses is no failure.
    """
    model: Any = found.model
    with suppress(HeedmapError), torch.inference_mode(), recording():
        vocab = getattr(model.config, "source_vocab", None) or model.config.vocab
        ids = torch.tensor([sample_ids(model.config, max(1, min(READ, model.config.max_length - 1)), vocab)])
        if found.translates:
            written = decode(model, ids, DecodingOptions(beam=1, max_length=WRITTEN))[0].ids
            model(ids, torch.tensor([[model.config.bos_id, *written[:-1]]]))
        else:
            model.outputs(ids)


def _number(value: Any, kind: type, most: float) -> Any:
    is_kind = type(value) is kind  # a bool is an int to isinstance
    if not is_kind or not 0 <= value < most:
        raise GarbledError("no numbers of a trial")
    return value


def _own_bytes() -> int:
    """Memory that is this process's alone, so that files and shared pages do not count; 0 where nothing tells."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def tried_folder(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Trial:
    """What a folder that says all about itself is, and costs, once it was loaded, run and tried in a worker.

    What is known of a folder is remembered for as long as no file in it changes.
    """
    if is_hugging_face(path):
        check_installed()
    files = [(file.name, file.stat()) for file in sorted(path.iterdir()) if file.is_file()]
    return _tried(path, limits, tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in files))


@lru_cache(_REMEMBERED)
def _tried(path: Path, limits: ReadLimits, stamps: tuple[tuple[str, int, int], ...]) -> Trial:
    n_bytes = sum(size for _, _, size in stamps)
    budget = Budget.of(n_bytes, FOLDER_MEMORY, FOLDER_SECONDS)
    answer = WORKERS.answer("folder", path.name, budget=budget, limits=limits, path=str(path.resolve()))
    try:
        found = Trial.of(answer.header)
    except GarbledError as error:
        raise garbled(path.name, str(error)) from error
    found.check(path.name, n_bytes)
    return found


def load_folder(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Checkpoint:
    """As `load`, after a worker has survived it; another reads its weights, its tokenizer works in a third."""
    tried_folder(path, limits)
    return load_with(path, limits, {}, folder_tokenizer, read_path)


def _size(stream: BufferedIOBase, name: str, remedy: Message, limits: ReadLimits) -> int:
    """How many bytes an open file has, which are no more than may be read."""
    size = stream.seek(0, io.SEEK_END)
    if size > limits.file_bytes:
        raise refused("file_large", name, remedy, found=size, most=limits.file_bytes)
    return size


def _contents(
    job: str, source: str, limits: ReadLimits, size: int, blocks: Sequence[Block] = (), **about: Any
) -> Contents:
    """What a job reads of a file; its tensors have at most `size` bytes."""
    answer = WORKERS.answer(job, source, blocks, budget=Budget.of(size), limits=limits, most_bytes=size, **about)
    fields: dict[str, Any] = {name: answer.header.get(name) for name in FORMS}
    try:
        tensors = wire_format.unpacked(answer.header.get("tensors"), answer.blocks, limits)
    except GarbledError as error:
        raise garbled(source, str(error)) from error
    if not tensors or not all(is_sound(fields[name]) for name, is_sound in FORMS.items()):
        raise garbled(source, "no contents of a checkpoint")
    fields |= {name: tuple(fields[name]) for name in ("dropped", "others")}
    fields["vocabularies"] = {name: tuple(tokens) for name, tokens in fields["vocabularies"].items()}
    return Contents(tensors=tensors, **fields)
