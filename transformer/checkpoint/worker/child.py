"""The template process and its workers: `python -m transformer.checkpoint.worker.child [--library] LINE`.

The template waits on a socket (the open file numbered LINE) for "fork a worker for this channel" (F) and "end this
worker" (E). It has one thread and runs nothing of a file; with `--library` it imports the transformers library first. A
worker does one job and is gone, or keeps what it was given and answers requests about it until its channel is closed.
"""

import ctypes
import gc
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import torch

from transformer.checkpoint.huggingface.library import prepare
from transformer.checkpoint.worker import wire_format
from transformer.checkpoint.worker.error_codec import packed
from transformer.checkpoint.worker.jobs import JOBS, KEEPERS, Answerer
from transformer.checkpoint.worker.pool import LIBRARY
from transformer.checkpoint.worker.template import MESSAGE_BYTES
from transformer.errors import CheckpointError, HeedmapError
from transformer.safe.limits import MEGABYTE

OPEN_FILES = 64
"""What a worker may have open: its channel, a few files of weights, and what libraries need."""

NICE = 5
"""A worker leaves a core that it shares to the server, on which everybody waits."""

MOST_REQUEST = 4096 * MEGABYTE
MOST_TRACE = 4_000
PARENT_DEATH_SIGNAL = 1
"""The option of Linux's `prctl` that names the signal."""


def main(line: int, with_library: bool = False) -> None:
    """Fork and end workers as the server says, until it is gone."""
    torch.set_num_threads(1)
    if with_library:
        with suppress(CheckpointError):  # the worker says what is missing
            prepare()
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
    request = wire_format.receive_header(channel)
    if request is None:
        return
    answer: Answerer | None = None
    with _told(channel) as told:
        limit(**request["budget"])
        blocks = wire_format.receive_blocks(channel, request, MOST_REQUEST)
        if request["job"] in KEEPERS:
            about, answer = KEEPERS[request["job"]](request, blocks)
            wire_format.send(channel, {**about, "kind": "done"})
        else:
            for header, found in JOBS[request["job"]](request, blocks):
                wire_format.send(channel, {**header, "kind": "part"}, found)
            wire_format.send(channel, {"kind": "done"})
    while answer is not None and told.goes_on and (asked := wire_format.receive_header(channel)) is not None:
        with _told(channel) as told:
            allow(asked["seconds"])
            wire_format.send(channel, {**answer(asked), "kind": "done"})


class _Told:
    """Whether a worker may go on after what it did."""

    goes_on = True


@contextmanager
def _told(channel: socket.socket) -> Iterator[_Told]:
    """Tell the server what goes wrong inside. After a refusal the worker may go on, otherwise it is at its end."""
    found = _Told()
    last: dict[str, Any] | None = None
    try:
        yield found
    except HeedmapError as error:
        last = {"kind": "refused", "error": packed(error)}
    except MemoryError:
        last, found.goes_on = {"kind": "memory"}, False
    except BaseException:  # noqa: BLE001  (panics of native libraries are no Exception; the server logs all)
        last, found.goes_on = {"kind": "failed", "sentence": traceback.format_exc()[-MOST_TRACE:]}, False
    if last is not None:
        wire_format.send(channel, last)


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


if __name__ == "__main__":
    main(int(sys.argv[-1]), LIBRARY in sys.argv)
