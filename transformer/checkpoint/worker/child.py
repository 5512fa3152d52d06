"""The template process and its workers: `python -m heedmap.checkpoint.worker.child LINE`.

The template waits on a socket (the open file numbered LINE) for "fork a worker for this channel" (F) and "end this
worker" (E). It has one thread and runs nothing of a file; the transformers library, if there is one, is imported first.
A worker does one job and is gone, or keeps what it was given and answers requests about it until its channel is closed.
A job yields tables and blocks of bytes (see `wire_format`).
"""

import ctypes
import gc
import io
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import torch

from ...attention.record_files import blocks as record_blocks
from ...attention.record_files import read as read_contents
from ...errors import HeedmapError
from ...messages import packed_message
from ...safe import arrays
from ...safe.contents import Contents
from ...safe.limits import MEGABYTE, ReadLimits
from ...safe.zips import zip_bytes, zip_entries
from ...text.base import Tokenizer
from ..foreign.vocabularies import parse_sentencepiece, read_tokens
from ..huggingface.library import MODELS, library
from ..load import load, read, read_folder_tokenizer, read_uploads
from . import wire_format
from .isolated import measured
from .remote_tokenizer import about
from .template import MESSAGE_BYTES

OPEN_FILES = 64
"""What a worker may have open: its channel, a few files of weights, and what libraries need."""

NICE = 5
"""A worker leaves a core that it shares to the server, on which everybody waits."""

MOST_REQUEST = 4096 * MEGABYTE
MOST_TRACE = 4_000
PARENT_DEATH_SIGNAL = 1
"""The option of Linux's `prctl` that names the signal."""


def main(line: int) -> None:
    """Fork and end workers as the server says, until it is gone."""
    torch.set_num_threads(1)
    with suppress(FileNotFoundError):
        tempfile.gettempdir()  # found by writing to it, which a worker cannot; libraries ask where it is
    gc.freeze()  # so that workers share what is loaded
    server, alive = socket.socket(fileno=line), set[int]()
    while True:
        message, channels, _, _ = socket.recv_fds(server, MESSAGE_BYTES, 1)
        if len(message) < MESSAGE_BYTES:
            break
        if message[:1] == b"F":
            pid = os.fork()
            if not pid:
                server.close()
                _be_worker(channels[0])
            os.close(channels[0])
            alive.add(pid)
            server.sendall(b"F" + pid.to_bytes(MESSAGE_BYTES - 1, "little"))
            continue
        status = _end(int.from_bytes(message[1:], "little"), alive)
        server.sendall(b"E" + status.to_bytes(MESSAGE_BYTES - 1, "little"))
    for pid in set(alive):
        _end(pid, alive)


def _end(pid: int, alive: set[int]) -> int:
    """End a worker and say how it had ended; 0 for one that is gone already. An id is free only after this."""
    if pid not in alive:
        return 0
    alive.discard(pid)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _be_worker(channel: int) -> NoReturn:
    """Do one job; nothing returns from here to the template's loop."""
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)  # the template's end is the worker's
        os.nice(NICE)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)  # native libraries write their panics there
        _serve(socket.socket(fileno=channel))
    finally:
        os._exit(0)


def _serve(channel: socket.socket) -> None:
    """Do a job, and answer requests about what it kept, until the channel is closed or something is not foreseen."""
    answer: Answerer | None = None
    while (request := wire_format.receive_header(channel)) is not None:
        try:
            found: dict[str, Any] = {}
            if answer is not None:
                allow(request["seconds"])
                found = answer(request)
            else:
                limit(**request["budget"])
                blocks = wire_format.receive_blocks(channel, request, MOST_REQUEST)
                if request["job"] in KEEPERS:
                    found, answer = KEEPERS[request["job"]](request, blocks)
                else:
                    for header, part in JOBS[request["job"]](request, ReadLimits(**request["limits"]), blocks):
                        wire_format.send(channel, {**header, "kind": "part"}, part)
            said = {**found, "kind": "done"}
        except HeedmapError as error:
            said = {"kind": "refused", "error": packed_message(error.message)}
        except MemoryError:
            said, answer = {"kind": "memory"}, None
        except BaseException:  # noqa: BLE001  (panics of native libraries are no Exception; the server logs all)
            said, answer = {"kind": "failed", "sentence": traceback.format_exc()[-MOST_TRACE:]}, None
        wire_format.send(channel, said)
        if answer is None:
            return


def allow(seconds: int) -> None:
    """Let this process work for so many seconds more, to the nearest whole one of all that it worked."""
    import resource  # only where processes can be forked

    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (round(used.ru_utime + used.ru_stime) + seconds, hard))


def limit(memory_bytes: int, seconds: int) -> None:
    """Bound this process for good: memory beyond what it has now, processor time, open files, no file written."""
    import resource  # only where processes can be forked

    def lower(kind: int, most: int) -> None:
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, 0)
    lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))  # the soft limit's signal tells the server what it was
    sizes = Path("/proc/self/statm")
    if sizes.exists():  # Linux: elsewhere the address space is not counted so
        pages = int(sizes.read_text().split()[0])
        lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes)


Part = tuple[dict[str, Any], Sequence[memoryview | bytes]]
"""A table and its blocks."""

Answerer = Callable[[Mapping[str, Any]], dict[str, Any]]
"""What answers requests about what is kept."""

Job = Callable[[Mapping[str, Any], ReadLimits, list[bytearray]], Iterator[Part]]
"""A job is done on a request, within limits, with the blocks that came with it: the bytes of the file called `name`."""


def read_files(request: Mapping[str, Any], limits: ReadLimits, blocks: list[bytearray]) -> Iterator[Part]:
    """The tensors of uploads (`names`, their bytes as blocks), or of the file or folder at `path`."""
    if "path" in request:
        return _contents(read(Path(request["path"]), limits))
    return _contents(read_uploads({name: io.BytesIO(blocks.pop(0)) for name in request["names"]}, limits))


def read_arrays(request: Mapping[str, Any], limits: ReadLimits, blocks: list[bytearray]) -> Iterator[Part]:
    """The arrays of a file, to compare with."""
    return _contents(arrays.read_arrays(io.BytesIO(blocks.pop()), request["name"], limits))


def read_vocabulary(request: Mapping[str, Any], limits: ReadLimits, blocks: list[bytearray]) -> Iterator[Part]:
    """The tokens of a list, as JSON."""
    yield {}, [json.dumps(read_tokens(bytes(blocks[0]), request["name"], limits)).encode()]


def read_record(request: Mapping[str, Any], limits: ReadLimits, blocks: list[bytearray]) -> Iterator[Part]:
    """The record in a file, written anew from what was read of it: the server meets only that."""
    yield {}, list(record_blocks(read_contents(io.BytesIO(blocks.pop()), request["name"], limits)))


def unzip(request: Mapping[str, Any], limits: ReadLimits, blocks: list[bytearray]) -> Iterator[Part]:
    """The files of a model's folder in a ZIP, one after the other; before them how large they are."""
    stream, size, source = io.BytesIO(blocks[0]), len(blocks.pop()), request["name"]
    entries = zip_entries(stream, size, source, limits)
    yield {"bytes": sum(line.n_bytes for line in entries.values())}, []
    for name, line in entries.items():
        yield {"name": name}, [b"".join(zip_bytes(stream, name, line, source))]


def try_folder(request: Mapping[str, Any], limits: ReadLimits, _: list[bytearray]) -> Iterator[Part]:
    """Load the folder at `path` and run its model once. Its tokenizers are tried where they are kept."""
    yield measured(lambda: load(Path(request["path"]), limits=limits)), []


def _contents(found: Contents) -> Iterator[Part]:
    """The contents of a checkpoint: its tensors beside all that JSON can hold."""
    described, memory = wire_format.packed(found.tensors)
    yield {**vars(found), "tensors": described}, memory


JOBS: dict[str, Job] = {
    "read": read_files,
    "arrays": read_arrays,
    "vocabulary": read_vocabulary,
    "folder": try_folder,
    "unzip": unzip,
    "record": read_record,
}
"""Every job by name."""


def keep_tokenizer(request: Mapping[str, Any], blocks: list[bytearray]) -> tuple[dict[str, Any], Answerer]:
    """Keep the tokenizer of the folder or file at `path`, or in the bytes of the file called `name`.

    Each request names a `side`, a `call` of the tokenizer and its `value`.
    """
    if "path" in request:
        found: Tokenizer = read_folder_tokenizer(Path(request["path"]))
    else:
        found = parse_sentencepiece(bytes(blocks[0]), request["name"])
    sides = {"source": found, "target": found.as_target()}

    def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
        call = getattr(sides[asked["side"]], asked["call"])
        return {"found": call(asked["value"])}

    return {side: about(tokenizer) for side, tokenizer in sides.items()}, answer


KEEPERS: dict[str, Callable[[Mapping[str, Any], list[bytearray]], tuple[dict[str, Any], Answerer]]] = {
    "tokenizer": keep_tokenizer,
}
"""What a worker may keep, by name: it answers what was kept in a few words, and then requests."""


if __name__ == "__main__":
    with suppress(Exception):  # a worker says what is missing
        library(MODELS)
    main(int(sys.argv[-1]))
