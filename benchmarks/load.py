"""A class of readers: sessions that look at heads of their own sentence, an action every few seconds.

Most of what a reader does, the browser draws by itself. So there are two classes (`benchmarks.readers` defines them):
in one, every action is another head's scores, which reaches the server; in the other, readers do a mix of all. Times
and CPU are those of actions that reach the server; how many there were beside them is said.

`python -m benchmarks load` measures what the project promises; `python -m benchmarks.load --sessions 75 --seconds 30
--servers 2 --actions mixed` anything else, `--greedy` the same beside sessions that ask for much (`benchmarks.greedy`).
`HEEDMAP_CACHE_MB=64 python -m benchmarks.load --sessions 4 --seconds 660 --pause 0.2 --actions pages` opens all pages
with new texts until results make room for others, and says how much memory the server takes then.
Sessions speak the page's own protocol (`benchmarks.websocket`); with several servers they are dealt out in turn, as a
proxy with sticky sessions would.

An answer is wrong if it does not hold, number for number, what was asked for, as the library computes it without a
server.
"""

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.greedy import WORKS, greedy
from benchmarks.measuring import Result
from benchmarks.readers import READERS, Reader, Truth, truth_of
from benchmarks.websocket import Session
from tests.browser.visiting import PATIENCE, ROOT, start_server

SECTION = "A class of readers, each with an action every 5 s: another head's or layer's scores, or a mix of all"
PAUSE = 5.0
"""Seconds from a reader's action to the next, give or take 30 %."""


@dataclass(frozen=True)
class Class:
    """So many sessions for so many seconds on so many servers, each acting every `pause` seconds."""

    sessions: int
    seconds: float
    servers: int = 1
    pause: float = PAUSE
    greedy: tuple[str, ...] = ()
    """Kinds of greedy sessions of which each server has one besides."""
    actions: Sequence[str] = ("scores",)
    """What readers do, of `READERS`: the first the first of these, the second the second, and so on in turn."""


@dataclass
class Report:
    """What came of it: seconds and bytes of each action that reached the server, errors, wrong answers, CPU, MB."""

    seconds: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    drawn_again: set[str] = field(default_factory=set)
    """Kinds of messages and elements that an action brought."""
    alone: int = 0
    """Actions that the browser does by itself."""
    wrong: int = 0
    lasted: float = 0.0
    cpu: float = 0.0
    cpu_of_a_visit: float = 0.0
    """CPU seconds of a visit with a new sentence: its translation and the whole page."""
    memory: list[float] = field(default_factory=list)
    """MB of all servers together at the beginning, after each whole minute, and at the end."""
    load: float = 0.0
    """How many processes wanted a core at the end, on the average of a minute."""
    greedy: Counter[str] = field(default_factory=Counter)
    """What greedy sessions got done meanwhile."""

    def percentile(self, share: float) -> float:
        """The time (s) within which this share of the actions was answered."""
        return float(np.quantile(self.seconds, share))

    @property
    def cpu_of_an_action(self) -> float:
        """CPU seconds of the servers, divided by the actions that reached one."""
        return self.cpu / len(self.seconds)

    @property
    def bytes_of_an_action(self) -> float:
        """Median bytes that the server sends for an action."""
        return float(np.median(self.bytes))

    @property
    def rate(self) -> float:
        """Actions that servers answered in a second."""
        return len(self.seconds) / self.lasted

    @property
    def growth(self) -> float | None:
        """MB that the servers grow by in a minute, from the first minute on; None for a class of less than two."""
        at = [*range(1, len(self.memory) - 1), self.lasted / 60]
        return float(np.polyfit(at, self.memory[1:], 1)[0]) if self.lasted >= 120 else None

    def line(self) -> str:
        """All of it in one line."""
        memory = ", ".join(f"{megabytes:.0f}" for megabytes in self.memory) + " MB"
        if self.growth is not None:
            memory += f" ({self.growth:+.1f} MB a minute from minute 1)"
        alone = f" beside {self.alone / self.lasted:.1f}/s that reach no server" if self.alone else ""
        return (
            f"p50 {1e3 * self.percentile(0.5):.0f} ms, p95 {1e3 * self.percentile(0.95):.0f} ms, "
            f"{self.rate:.1f}/s{alone}, "
            f"{1e3 * self.cpu_of_an_action:.0f} ms of CPU and {self.bytes_of_an_action / 1e3:.1f} kB an action, "
            f"{1e3 * self.cpu_of_a_visit:.0f} ms of CPU a visit, "
            f"{self.wrong} wrong of {len(self.seconds)}, {len(self.errors)} errors, {memory}; load {self.load:.1f}"
            + "".join(f", {count} {what}" for what, count in self.greedy.items())
        )


def taught(plan: Class) -> Report:
    """Let a class work."""
    truth = truth_of(plan.sessions)
    # The caller's thread may have a loop that runs.
    with _servers(plan.servers) as (addresses, processes), ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, _work(plan, truth, addresses, processes)).result()


async def _work(plan: Class, truth: Truth, addresses: Sequence[str], processes: Sequence[int]) -> Report:
    report = Report()
    for address in addresses:  # the first visit of a server loads the checkpoint
        first = Session(address)
        report.errors += (await first.open("translate")).errors
        await first.close()
    before = _cpu(processes)
    async with _opened(plan, truth, addresses, report) as readers, AsyncExitStack() as beside:
        report.cpu_of_a_visit = (_cpu(processes) - before) / plan.sessions
        report.memory.append(_megabytes(processes))
        for address in addresses if plan.greedy else ():
            await beside.enter_async_context(greedy(address, plan.greedy, report.greedy, report.errors))
        before, begun = _cpu(processes), time.monotonic()
        watching = asyncio.create_task(_watch(processes, report))
        await asyncio.gather(*(_read(plan, number, reader, report) for number, reader in enumerate(readers)))
        report.lasted = time.monotonic() - begun
        report.cpu = _cpu(processes) - before
        watching.cancel()
        report.memory.append(_megabytes(processes))
        report.load = os.getloadavg()[0]
    return report


@asynccontextmanager
async def _opened(plan: Class, truth: Truth, addresses: Sequence[str], report: Report) -> AsyncIterator[list[Reader]]:
    """All readers, each with its sentence on the page; a few come at a time."""
    readers = [
        READERS[plan.actions[number % len(plan.actions)]](number, addresses[number % len(addresses)], truth)
        for number in range(plan.sessions)
    ]
    few = asyncio.Semaphore(4)

    async def come(reader: Reader) -> None:
        async with few:
            report.errors += (await reader.come()).errors

    try:
        await asyncio.gather(*map(come, readers))
        yield readers
    finally:
        for reader in readers:
            await reader.leave()


async def _read(plan: Class, number: int, reader: Reader, report: Report) -> None:
    """One reader acts until the time is over."""
    chance = random.Random(number)
    end = time.monotonic() + plan.seconds
    await asyncio.sleep(chance.uniform(0, plan.pause))
    while time.monotonic() < end:
        answer = await reader.act()
        if answer is None:
            report.alone += 1
        else:
            report.seconds.append(answer.seconds)
            report.bytes.append(answer.bytes)
            report.errors += answer.errors
            report.drawn_again |= answer.by_element.keys()
            report.wrong += reader.is_wrong(answer)
        await asyncio.sleep(chance.uniform(0.7, 1.3) * plan.pause)


async def _watch(processes: Sequence[int], report: Report) -> None:
    while True:
        await asyncio.sleep(60)
        report.memory.append(_megabytes(processes))


@contextmanager
def _servers(count: int) -> Iterator[tuple[list[str], list[int]]]:
    """Addresses and processes of so many servers of the dashboard."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses, processes = [], []
        for number in range(count):
            server, address = start_server(ROOT / "app.py", folder / f"log{number}")
            stack.callback(server.wait, timeout=PATIENCE)
            stack.callback(server.terminate)
            addresses.append(address)
            processes.append(server.pid)
        yield addresses, processes


def _cpu(processes: Sequence[int]) -> float:
    """CPU seconds that these processes have used (Linux only)."""
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in processes]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def _megabytes(processes: Sequence[int]) -> float:
    """Memory that these processes hold (Linux only)."""
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in processes)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure() -> list[Result]:
    """Classes of growing size, the largest one for five minutes; then the same on two servers."""
    results = []
    rates = []
    for sessions, seconds in ((30, 30), (75, 30), (200, 300)):
        report = taught(Class(sessions, seconds))
        rates.append(report.rate)
        results.append(Result(SECTION, f"{sessions} readers for {seconds} s, scores", report.line()))
    late, cpu = report.percentile(0.95), report.cpu_of_an_action
    flat = report.memory[-1] <= 1.1 * report.memory[1]
    results += [
        Result(SECTION, "200 readers: 95 % of the actions within", f"{1e3 * late:.0f} ms", "300 ms", late < 0.3),
        Result(SECTION, "200 readers: wrong answers, errors", f"{report.wrong}, {len(report.errors)}", "0, 0",
               not report.wrong and not report.errors),
        Result(SECTION, "200 readers: memory, from minute 1 to minute 5",
               f"{report.memory[1]:.0f} to {report.memory[-1]:.0f} MB", "flat, under 1,500 MB",
               flat and max(report.memory) < 1_500),
        Result(SECTION, "200 readers: CPU an action", f"{1e3 * cpu:.0f} ms", "20 ms", cpu <= 0.02),
        Result(SECTION, "200 readers: sent an action", f"{report.bytes_of_an_action / 1e3:.1f} kB", "15 kB",
               report.bytes_of_an_action <= 15_000),
        Result(SECTION, "a visit with a new sentence (beam 5, 15 tokens), page included: CPU",
               f"{1e3 * report.cpu_of_a_visit:.0f} ms", "150 ms", report.cpu_of_a_visit <= 0.15),
        Result(SECTION, "actions a second of 30, 75 and 200 readers", ", ".join(f"{rate:.1f}" for rate in rates),
               "never fewer", rates == sorted(rates)),
    ]  # fmt: skip
    training = taught(Class(50, 60, greedy=("training",)))
    beside = taught(Class(50, 60, greedy=tuple(kind for kind in WORKS if kind != "training")))
    results += [
        Result(SECTION, "50 readers beside one training: 95 % of the actions within",
               f"{1e3 * training.percentile(0.95):.0f} ms", "300 ms", training.percentile(0.95) < 0.3),
        Result(SECTION, "50 readers for 60 s beside four greedy sessions", beside.line()),
        Result(SECTION, "50 readers beside four greedy sessions: 95 % of the actions within",
               f"{1e3 * beside.percentile(0.95):.0f} ms", "1,000 ms", beside.percentile(0.95) < 1),
    ]  # fmt: skip
    mixed = taught(Class(200, 120, actions=("mixed",)))
    late, cpu = mixed.percentile(0.95), mixed.cpu_of_an_action
    results += [
        Result(SECTION, "200 readers for 120 s, a mix: 8 of 10 another head or layer, 1 another form, 1 another view",
               mixed.line()),
        Result(SECTION, "200 readers, a mix: 95 % of the actions that reach the server within", f"{1e3 * late:.0f} ms",
               "300 ms", late < 0.3),
        Result(SECTION, "200 readers, a mix: CPU an action that reaches the server", f"{1e3 * cpu:.0f} ms", "20 ms",
               cpu <= 0.02),
        Result(SECTION, "200 readers for 60 s on two servers", taught(Class(200, 60, servers=2)).line()),
    ]  # fmt: skip
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument(
        "--greedy", nargs="*", choices=list(WORKS), help="beside sessions that ask for much, of these kinds or of all"
    )
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds from an action to the next (default: 5)")
    parser.add_argument("--actions", nargs="+", choices=list(READERS), default=["scores"], help="what readers do")
    asked = parser.parse_args()
    kinds = () if asked.greedy is None else tuple(asked.greedy or WORKS)
    found = taught(Class(asked.sessions, asked.seconds, asked.servers, asked.pause, kinds, asked.actions))
    print(f"{asked.sessions} sessions, {asked.seconds:.0f} s, {asked.servers} servers: {found.line()}")
    for problem in sorted(set(found.errors)):
        print(problem)
