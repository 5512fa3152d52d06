"""The process that trains small tasks beside a server: `python -m transformer.training.child`, and what starts it.

It has its own random numbers and its own interpreter, and runs after everything else that wants the processor. What it
is told (a line of JSON: settings, and the update to train up to) and what it answers (a recording of at most one
snapshot, after its length) come through pipes. Ended at any moment, it makes the same run again.
"""

import json
import os
import select
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO

import torch

from transformer.runs.parent import end_with_parent
from transformer.training.snapshots import SCHEDULE, Learning, Snapshot, packed, unpacked
from transformer.training.tasks import Settings

KEPT_RUNS = 4
"""Runs that can go on where they stand; another one begins anew."""

NICENESS = 10
"""How far it stands back for others."""

LENGTH_BYTES = 8


class Child:
    """The process as its server knows it; started by the first question."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = bytearray()

    def ask(self, settings: Settings, update: int) -> None:
        """Have it train up to an update; `answer` tells when it did."""
        if self._process is None:
            threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
            self._process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **threads, "PYTHONPATH": str(Path(__file__).parents[2])},
                start_new_session=True,  # the terminal's Ctrl-C is the server's
            )
        pipe = self._process.stdin
        if pipe is not None:
            pipe.write(json.dumps({"settings": asdict(settings), "update": update}).encode() + b"\n")
            pipe.flush()

    def answer(self, seconds: float) -> tuple[float, Snapshot | None] | None:
        """Processor seconds that it took, and the snapshot at that update, if one is due; None if it is not done yet.

        Raises:
            ConnectionError: it has ended.
        """
        if self._process is None or self._process.stdout is None:
            raise ConnectionError
        pipe = self._process.stdout.fileno()
        while len(self._heard) < LENGTH_BYTES or len(self._heard) < LENGTH_BYTES + self._length:
            if not select.select([pipe], [], [], seconds)[0]:
                return None
            if not (some := os.read(pipe, 2**16)):
                raise ConnectionError
            self._heard += some
        data, self._heard = bytes(self._heard[LENGTH_BYTES:]), bytearray()
        seconds_taken, found = json.loads(data[: data.index(b"\n")]), data[data.index(b"\n") + 1 :]
        return float(seconds_taken), unpacked(found)[1][0] if found else None

    def end(self) -> None:
        """End it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError), self._process:  # closes its pipes, to which it reads no more, and waits
                pass
        self._process, self._heard = None, bytearray()

    @property
    def _length(self) -> int:
        return int.from_bytes(self._heard[:LENGTH_BYTES], "little")


def main(asked: IO[bytes], told: IO[bytes]) -> None:
    """Answer until nobody asks any more."""
    runs = OrderedDict[Settings, Learning]()
    for line in asked:
        request = json.loads(line)
        settings = Settings(**request["settings"])
        run = runs.pop(settings, None)
        if run is None or run.update > request["update"]:
            run = Learning(settings)
        runs[settings] = run
        while len(runs) > KEPT_RUNS:
            runs.popitem(last=False)
        before = run.seconds
        run.advance(request["update"])
        found = packed(settings, [run.snapshot()]) if run.update in SCHEDULE else b""
        data = json.dumps(run.seconds - before).encode() + b"\n" + found
        told.write(len(data).to_bytes(LENGTH_BYTES, "little") + data)
        told.flush()


if __name__ == "__main__":
    end_with_parent()
    torch.set_num_threads(1)
    with suppress(OSError):  # where niceness cannot be set, it is as any other process
        os.nice(NICENESS)
    main(sys.stdin.buffer, sys.stdout.buffer)
