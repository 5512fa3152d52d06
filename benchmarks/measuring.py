"""How things are measured: variants take turns, so that what else the machine does hits all of them alike.

Times are CPU seconds of this process at one thread: on a machine with nothing else to do they are wall time.
"""

import ctypes
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Action = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """One line of the table: what was measured, what came out, what was hoped for, and whether that was reached.

    `reached` is None for a line that is there for comparison only.
    """

    section: str
    what: str
    measured: str
    goal: str = ""
    reached: bool | None = None


def cpu_seconds(action: Action) -> float:
    """CPU time, user and system, of one call in this process."""
    started = time.process_time()
    action()
    return time.process_time() - started


def interleaved(variants: Mapping[str, Action], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each variant in each of `rounds`, after one round to warm up; each round starts at another one."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for name in names:
        variants[name]()
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(cpu_seconds(variants[name]))
    return times


def ratio(times: Mapping[str, list[float]], name: str, base: str) -> float:
    """The median over the rounds of `name` against `base` of the same round."""
    return statistics.median(a / b for a, b in zip(times[name], times[base], strict=True))


def median_seconds(action: Action, repeats: int) -> float:
    """Median CPU seconds of `repeats` calls, after one to warm up."""
    action()
    return statistics.median(cpu_seconds(action) for _ in range(repeats))


def peak_growth(action: Action) -> int:
    """Bytes by which the resident memory of this process rose, at its highest, above where it stood (Linux only)."""
    ctypes.CDLL(None).malloc_trim(0)  # memory that lies free already would hide what the action takes
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status("VmRSS")
    action()
    return _status("VmHWM") - before


def machine() -> str:
    """Processor, cores and memory, in words."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.+)", info.read_text()) if info.exists() else None
    processor = named.group(1).strip() if named else platform.processor() or platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} virtual cores of an {processor}, {memory:.0f} GiB, no GPU used"


def _status(field: str) -> int:
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise OSError(f"this system does not report {field}: measure memory on Linux")
    return int(match.group(1)) * 1024
