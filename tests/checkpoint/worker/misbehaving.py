"""A template whose workers do what no worker should: `python -m tests.checkpoint.worker.misbehaving LINE`."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from heedmap.checkpoint.worker import wire_format
from heedmap.checkpoint.worker.child import JOBS, KEEPERS, Job, Part, main
from heedmap.errors import InputError


def raw(data: bytes, times: int = 1) -> None:
    """Let the next message be these bytes instead."""

    def send(channel: Any, *said: Any) -> None:
        for _ in range(times):
            channel.sendall(data)

    vars(wire_format)["send"] = send


def framed(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


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


ACTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "spin": spin,
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "kill": lambda asked: os.kill(os.getpid(), asked["signal"]),
    "leave": lambda _: os._exit(3),
    "memory": lambda _: len(bytearray(10**9)),
    "native_memory": lambda _: torch.ones(10**9).numel(),
    "raw": lambda asked: raw(bytes.fromhex(asked["hex"]), asked.get("times", 1)),
    "endless": lambda _: raw(framed(b'{"kind": "part", "blocks": []}'), times=10**9),
    "opened": opened,
    "written": written,
    "panicked": panicked,
    "niceness": lambda _: os.nice(0),
    "environment": lambda _: sorted(os.environ),
    "threads": lambda _: len(list(Path("/proc/self/task").iterdir())),
    "pid": lambda _: os.getpid(),
    "add": lambda asked: asked["kept"] + asked["value"],
    "refuse": lambda asked: (_ for _ in ()).throw(InputError("broken_character", position=asked["value"])),
}


def job(act: Callable[[Mapping[str, Any]], Any]) -> Job:
    def run(request: Mapping[str, Any], *_: object) -> Iterator[Part]:
        yield {"started": True}, []
        yield {"found": act(request)}, []

    return run


def keep(request: Mapping[str, Any], _: list[bytearray]) -> tuple[dict[str, Any], Any]:
    """Keep a number, and do what is asked."""
    if request.get("broken"):
        raise InputError("broken_character", position=7)
    return {"kept": request["kept"]}, lambda asked: {"found": ACTS[asked["do"]]({**request, **asked})}


KEEPERS["keep"] = keep
JOBS.update({name: job(act) for name, act in ACTS.items()})

if __name__ == "__main__":
    main(int(sys.argv[-1]))
