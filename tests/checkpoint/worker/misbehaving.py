"""A template whose workers do what no worker should: `python -m tests.checkpoint.worker.misbehaving LINE`."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.worker import wire_format
from transformer.checkpoint.worker.child import main
from transformer.checkpoint.worker.jobs import JOBS, KEEPERS, Part
from transformer.errors import InputError


def raw(data: bytes, times: int = 1) -> None:
    """Let the next message be these bytes instead."""

    def send(channel: Any, *said: Any) -> None:
        for _ in range(times):
            channel.sendall(data)

    vars(wire_format)["send"] = send


def framed(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


def job(act: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any], list[bytearray]], Iterator[Part]]:
    def run(request: Mapping[str, Any], _: list[bytearray]) -> Iterator[Part]:
        yield {"started": True}, []
        yield {"found": act(request)}, []

    return run


def spin(_: Mapping[str, Any]) -> None:
    while True:
        pass


def opened(_: Mapping[str, Any]) -> int:
    count = 0
    try:
        while count < 1000:
            os.open(os.devnull, os.O_RDONLY)
            count += 1
    except OSError:
        return count
    return -1


def written(request: Mapping[str, Any]) -> str:
    try:
        Path(request["file"]).write_bytes(b"something")
    except OSError as error:
        return error.strerror or ""
    return "written"


def panicked(_: Mapping[str, Any]) -> None:
    raise type("PanicException", (BaseException,), {})("a native library gave up")


def endless(_: Mapping[str, Any]) -> None:
    raw(framed(b'{"kind": "part", "blocks": []}'), times=10**9)


def keep(request: Mapping[str, Any], _: list[bytearray]) -> tuple[dict[str, Any], Any]:
    """Keep a number, and do what is asked."""
    acts: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "add": lambda asked: request["kept"] + asked["value"],
        "pid": lambda _: os.getpid(),
        "refuse": lambda asked: (_ for _ in ()).throw(InputError("broken_character", position=asked["value"])),
        "spin": spin,
        "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
        "memory": lambda _: len(bytearray(10**9)),
        "die": lambda _: os._exit(3),
        "raw": lambda asked: raw(bytes.fromhex(asked["hex"])),
    }
    if request.get("broken"):
        raise InputError("broken_character", position=7)
    return {"kept": request["kept"]}, lambda asked: {"found": acts[asked["do"]](asked)}


KEEPERS["keep"] = keep

JOBS.update(
    spin=job(spin),
    stop=job(lambda _: os.kill(os.getpid(), signal.SIGSTOP)),
    kill=job(lambda request: os.kill(os.getpid(), request["signal"])),
    leave=job(lambda _: os._exit(3)),
    memory=job(lambda _: len(bytearray(10**9))),
    native_memory=job(lambda _: torch.ones(10**9).numel()),
    raw=job(lambda request: raw(bytes.fromhex(request["hex"]), request.get("times", 1))),
    endless=job(endless),
    opened=job(opened),
    written=job(written),
    panicked=job(panicked),
    niceness=job(lambda _: os.nice(0)),
    environment=job(lambda _: sorted(os.environ)),
    threads=job(lambda _: len(list(Path("/proc/self/task").iterdir()))),
)

if __name__ == "__main__":
    main(int(sys.argv[-1]))
