"""A class of readers: sessions that look at another head's scores of their own sentence every few seconds.

The browser draws most of what a reader does by itself; it has no scores, so each of these actions reaches the server.
Sessions speak the page's own protocol (`benchmarks.websocket`); with several servers they are dealt out in turn, as a
proxy with sticky sessions would.

An answer is wrong if it does not hold, number for number, the scores that the library computes without a server.
"""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import torch

from benchmarks.measuring import Result
from benchmarks.websocket import Session
from heedmap import Record, load, translate
from heedmap.attention.measures import sites_of
from heedmap.plots.canvas.blob import unpack
from tests.browser.visiting import ROOT, start_server
from tests.waiting import PATIENCE

SECTION = "A class of readers, each with an action every 5 s: another head's or layer's scores"
PAUSE = 5.0
"""Seconds from a reader's action to the next, give or take 30 %."""

NOUNS = (
    *("dog", "man", "woman", "boy", "girl", "cat", "group", "child", "player", "rider", "worker", "teacher"),
    *("singer", "runner", "driver"),
)
COLOURS = ("red", "blue", "green", "white", "black", "brown", "yellow", "orange", "grey", "pink")
PLACES = ("down the street", "along the beach", "in the park")
SENTENCES = [
    f"a {noun} in a {colour} shirt is riding a bicycle {place} ."
    for place, colour, noun in product(PLACES, COLOURS, NOUNS)
]
"""One for each reader, of 450."""


@dataclass
class LoadReport:
    """What came of it: seconds and bytes of each action, errors, wrong answers, CPU, MB."""

    seconds: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """Kinds of messages and elements that an action brought."""
    wrong: int = 0
    lasted: float = 0.0
    cpu_of_an_action: float = 0.0
    cpu_of_a_visit: float = 0.0
    """CPU seconds of a visit with a new sentence: its translation and the whole page."""
    memory: list[float] = field(default_factory=list)
    """MB of all servers together at the beginning, after each whole minute, and at the end."""

    def line(self) -> str:
        """All of it in one line."""
        (p50, p95), rate = 1e3 * np.quantile(self.seconds, [0.5, 0.95]), len(self.seconds) / self.lasted
        return (
            f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, {rate:.1f}/s, {1e3 * self.cpu_of_an_action:.0f} ms of CPU and "
            f"{np.median(self.bytes) / 1e3:.1f} kB an action, {1e3 * self.cpu_of_a_visit:.0f} ms of CPU a visit, "
            f"{self.wrong} wrong of {len(self.seconds)}, {len(self.errors)} errors, "
            f"{', '.join(f'{megabytes:.0f}' for megabytes in self.memory)} MB"
        )


def taught(sessions: int, seconds: float, n_servers: int = 1, pause: float = PAUSE) -> LoadReport:
    """Let so many readers work for so many seconds, each acting every `pause` seconds."""
    torch.set_num_threads(1)  # two wait for each other where something else runs
    checkpoint, report = load(ROOT / "checkpoints" / "multi30k-en-de"), LoadReport()
    records = [translate(checkpoint, sentence).record for sentence in SENTENCES[:sessions]]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses, processes = [], []
        for number in range(n_servers):
            server, address = start_server(ROOT / "app.py", folder / f"log{number}")
            stack.callback(server.wait, timeout=PATIENCE)
            stack.callback(server.terminate)
            addresses.append(address)
            processes.append(server.pid)
        work = _class(report, records, addresses, processes, seconds, pause)
        # The caller's thread may have a loop that runs.
        stack.enter_context(ThreadPoolExecutor(1)).submit(asyncio.run, work).result()
    return report


async def _class(
    report: LoadReport,
    records: Sequence[Record],
    addresses: Sequence[str],
    processes: Sequence[int],
    seconds: float,
    pause: float,
) -> None:
    few = asyncio.Semaphore(4)

    async def come(address: str, **query: str) -> Session:
        async with few:
            session = Session(address)
            report.errors += (await session.open("translate", **query)).errors
        return session

    async def watch() -> None:
        while True:
            report.memory.append(megabytes(processes))
            await asyncio.sleep(60)

    for address in addresses:  # the first visit of a server loads the checkpoint
        await (await come(address)).close()
    before = _cpu(processes)
    at = [addresses[i % len(addresses)] for i in range(len(records))]
    visits = (come(one, text=record.text, scores="True") for one, record in zip(at, records, strict=True))
    sessions = await asyncio.gather(*visits)
    report.cpu_of_a_visit = (_cpu(processes) - before) / len(records)
    before, begun = _cpu(processes), time.monotonic()
    watching, readers = asyncio.create_task(watch()), enumerate(zip(sessions, records, strict=True))
    await asyncio.gather(*(_reader(report, number, *one, begun + seconds, pause) for number, one in readers))
    report.lasted = time.monotonic() - begun
    report.cpu_of_an_action = (_cpu(processes) - before) / len(report.seconds)
    watching.cancel()
    report.memory.append(megabytes(processes))
    for session in sessions:
        await session.close()


async def _reader(report: LoadReport, number: int, session: Session, record: Record, end: float, pause: float) -> None:
    """Ask for the scores of another head of one's own sentence, one time in four of another layer; once at least."""
    chance, sites = random.Random(number), sites_of(record, "decoder.cross")
    sizes = {"layer": len(sites), "head": record[sites[0]].n_heads}
    at = {name: chance.randrange(size) for name, size in sizes.items()}
    await asyncio.sleep(chance.uniform(0, pause))
    while True:
        name = "layer" if chance.random() < 0.25 else "head"
        at[name] = (at[name] + chance.randrange(1, sizes[name])) % sizes[name]
        answer = await session.trigger("head-choice", "asked", {key: str(value) for key, value in at.items()})
        picture = record[sites[at["layer"]]].picture(at["head"], words=True, scores=True)
        expected, found = np.float32(picture.values).ravel(), answer.keyed("heatmap")
        report.wrong += found is None or not np.array_equal(unpack(found.bidi_component.bytes)[1]["weights"], expected)
        report.seconds.append(answer.seconds)
        report.bytes.append(answer.bytes)
        report.errors += answer.errors
        report.kinds |= answer.kinds
        await asyncio.sleep(chance.uniform(0.7, 1.3) * pause)
        if time.monotonic() >= end:
            return


def _cpu(processes: Sequence[int]) -> float:
    """CPU seconds that these processes have used (Linux only)."""
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in processes]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def megabytes(processes: Sequence[int]) -> float:
    """Memory that these processes hold (Linux only)."""
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in processes)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure() -> list[Result]:
    """Classes of growing size, the largest one for five minutes; then the same on two servers."""
    results, rates = [], []
    for sessions, seconds in ((30, 30), (75, 30), (200, 300)):
        report = taught(sessions, seconds)
        rates.append(len(report.seconds) / report.lasted)
        results.append(Result(SECTION, f"{sessions} readers for {seconds} s, scores", report.line()))
    late, sent = float(np.quantile(report.seconds, 0.95)), float(np.median(report.bytes))
    cpu, visit, (_, first, *_, last) = report.cpu_of_an_action, report.cpu_of_a_visit, report.memory
    two = taught(200, 60, n_servers=2).line()
    for what, measured, goal, *reached in (
        ("200 readers: 95 % of the actions within", f"{1e3 * late:.0f} ms", "300 ms", late < 0.3),
        ("200 readers: wrong answers, errors", f"{report.wrong}, {len(report.errors)}", "0, 0",
         not report.wrong and not report.errors),
        ("200 readers: memory, from minute 1 to minute 5", f"{first:.0f} to {last:.0f} MB", "flat, under 1,500 MB",
         last <= 1.1 * first and max(report.memory) < 1_500),
        ("200 readers: CPU an action", f"{1e3 * cpu:.0f} ms", "20 ms", cpu <= 0.02),
        ("200 readers: sent an action", f"{sent / 1e3:.1f} kB", "15 kB", sent <= 15_000),
        ("a visit with a new sentence (beam 5, 15 tokens), page included: CPU", f"{1e3 * visit:.0f} ms", "150 ms",
         visit <= 0.15),
        ("actions a second of 30, 75 and 200 readers", ", ".join(f"{rate:.1f}" for rate in rates), "never fewer",
         rates == sorted(rates)),
        ("200 readers for 60 s on two servers", two, ""),
    ):  # fmt: skip
        results.append(Result(SECTION, what, measured, goal, *reached))
    return results
