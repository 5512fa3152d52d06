"""Files and descriptions changed at random, always the same by number, and what becomes of them, each in a process."""

import argparse
import copy
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.safe.hostile import safetensors

MEMORY_BYTES = 1024**3
"""What a process may take beside what it has, which is more the more tests ran before in the one that forks it."""

MOST_TRACE = 3000
SECONDS = 20

REPORTED = 1000
"""Files after which the counts so far are written."""

BAD = "bad"


def in_a_process(work: Callable[[], bytes], seconds: int) -> tuple[int, bytes]:
    """What `work` gives, and the status that `os.waitpid` says; of a failure its traceback, and a status of 1.

    The process ends after `seconds` even while one instruction never lets go of the interpreter.
    """
    seen, told = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(seen)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            bound_memory()
            found = work()
            status = 0
        except BaseException:  # noqa: BLE001  (whatever it is, it is told)
            found = traceback.format_exc()[-MOST_TRACE:].encode(errors="replace")
        finally:
            os.write(told, found[:60_000])
            os._exit(status)
    os.close(told)
    with os.fdopen(seen, "rb") as pipe:
        data = pipe.read()
    return os.waitpid(child, 0)[1], data


def children(pid: int | None) -> list[int]:
    """The processes that a process has started; none of no process."""
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*") for child in _read(task / "children").split()]


def processor_seconds(pid: int | None, of_ended: bool = False) -> float:
    """Processor seconds of a process, or of its children that have ended; 0 of one that is gone."""
    times = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[11:15]
    return sum(map(int, times[2:] if of_ended else times[:2])) / os.sysconf("SC_CLK_TCK")


def is_gone(pid: int) -> bool:
    """Whether a process is no more, or only a name that its parent has yet to let go."""
    return _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] in ([], ["Z"], ["X"])


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def bound_memory() -> None:
    """Let this process take `MEMORY_BYTES` more than it has, for good."""
    most = _addressed() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


@contextmanager
def memory_bounded(megabytes: int) -> Iterator[None]:
    """Let this process ask for so much more than it has, until the block ends: more is a `MemoryError`."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_addressed() + megabytes * 2**20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _addressed() -> int:
    """Bytes of memory that this process has asked for."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@contextmanager
def calls_counted() -> Iterator[Callable[[], int]]:
    """How many functions were called and left since the block began, which says on any machine how much was done."""
    count = 0

    def called(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)


def tried(examine: Callable[[], str]) -> str:
    """What `examine` says in a process with little memory and time, or how that ended."""
    status, said = in_a_process(lambda: examine().encode(), SECONDS)
    if os.WIFSIGNALED(status):
        return f"ended by signal {signal.Signals(os.WTERMSIG(status)).name}"
    return said.decode(errors="replace")


def count_ends(about: str | None, outcome: Callable[[int], tuple[str, str]], good: Sequence[str]) -> int:
    """Count the kinds and ends of `--files` mutants from number `--first` on; 1 if one end is none of the good ones."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--files", type=int, default=2000, help="how many files are made and read")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    given = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    start = time.monotonic()
    for done in range(1, given.files + 1):
        kind, end = outcome(given.first + done - 1)
        counts[kind, end if end in good else BAD] += 1
        if end not in good:
            sys.stdout.write(f"{given.first + done - 1} ({kind}): {end}\n")
        if done % REPORTED == 0 or done == given.files:
            ends = (f"{count:,} {end} ({kind})" for (kind, end), count in sorted(counts.items()))
            bad = sum(count for (_, end), count in counts.items() if end == BAD)
            sys.stdout.write("\n".join(["", *ends, f"{done:,} files, {bad} bad, {time.monotonic() - start:.0f} s\n"]))
            sys.stdout.flush()
    return int(any(end == BAD for _, end in counts))


def flipped(draw: Random, data: bytes) -> bytes:
    """Some bytes are others."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        changed[draw.randrange(len(data))] = draw.choice([0, 1, 0x10, 0x7F, 0x80, 0xFF, draw.randrange(256)])
    return bytes(changed)


def moved(draw: Random, data: bytes) -> bytes:
    """A part is gone, stands twice or elsewhere; or the file ends early."""
    a, b = draw.randrange(len(data)), draw.randrange(len(data))
    part = data[a : a + draw.choice([draw.randint(1, 9), draw.randint(1, 300), len(data)])]
    rest = data if draw.random() < 0.5 else data[:a] + data[a + len(part) :]
    return draw.choice([rest[:b] + part + rest[b:], rest[:b] + part + rest[b:], rest[:b]])


def damaged(draw: Random, data: bytes) -> bytes:
    """Bytes are others, at the start or anywhere, or parts are elsewhere."""
    end = draw.choice([8, 600, 1500, len(data)])
    return draw.choice([moved(draw, data), flipped(draw, data[:end]) + data[end:]])


def entries(value: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its name or number there."""
    found = [] if found is None else found
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inside):
        found.append((value, key))
        entries(item, found)
    return found


def other_json(draw: Random, value: Any, strange: Sequence[Any]) -> Any:
    """The same with one or two of its values strange or a bit off, of another place, gone, repeated or renamed."""
    made = {"top": copy.deepcopy(value)}
    for _ in range(draw.choice([1, 1, 2])):
        holder, key = draw.choice(entries(made))
        old, way = holder[key], draw.random()
        if way < 0.3 and type(old) is int:
            holder[key] = old + draw.choice([-2, -1, 1, 2, 4])
        elif way < 0.3 and isinstance(old, list) and old:
            holder[key] = draw.choice([old[1:], old * 2, old + [draw.choice(old)] * draw.choice([1, 3, 5_000])])
        elif way < 0.7 or holder is made:
            holder[key] = copy.deepcopy(draw.choice(strange))
        elif way < 0.8:
            del holder[key]
        elif way < 0.9 and isinstance(holder, dict):
            holder[draw.choice(["", "x", "__metadata__", "__class__", "." * 70, "\ud800"])] = holder.pop(key)
        else:
            other, place = draw.choice(entries(made))
            holder[key] = copy.deepcopy(other[place])
    return made["top"]


def header_of(data: bytes) -> tuple[Any, bytes]:
    """The table at the start of a safetensors file, and the bytes of its tensors."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def other_header(draw: Random, data: bytes, strange: Sequence[Any]) -> bytes:
    """A safetensors file with other values in its table."""
    header, numbers = header_of(data)
    return safetensors(other_json(draw, header, strange), numbers)
