"""A real server, under a bound on its memory, whose readers bring what is made to end it: the others notice nothing."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from benchmarks.websocket import Answer, Session
from tests.browser.visiting import PATIENCE, ROOT, start_server
from tests.checkpoint.huggingface.families import write_folder
from tests.checkpoint.worker.fuzz import zipped
from tests.checkpoint.worker.test_remote_tokenizer import replaced, split
from tests.loops import completed

MEMORY_BYTES = 8 * 1024**3
GROWTH = 300
"""Megabytes that the server may hold more of once all is over."""

SLOWER = 8
"""How many times as long a page may take while somebody's file keeps two workers busy; one that waited would last until
they are ended. Seconds would say more of what else the machine does."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The address of the dashboard, and the id of its process."""
    process, address = start_server(ROOT / "app.py", tmp_path_factory.mktemp("server") / "app.log")
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    yield address, process.pid
    assert process.poll() is None, "the server ended"
    process.terminate()
    process.wait(timeout=PATIENCE)


def said(answer: Answer) -> str:
    """What boxes of a page say."""
    boxes = [element.alert.body for element in answer.elements if element.WhichOneof("type") == "alert"]
    return " ".join(boxes).replace("\\", "")


def megabytes(pid: int) -> float:
    """Memory that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@asynccontextmanager
async def opened(address: str, count: int = 1) -> AsyncIterator[list[Session]]:
    """Sessions on the page that takes files."""
    sessions = [Session(address) for _ in range(count)]
    try:
        for one in sessions:
            await one.open("your_model")
        yield sessions
    finally:
        for one in sessions:
            await one.close()


async def visited(address: str, *pages: str) -> list[float]:
    """Seconds that somebody else's visits of these pages take."""
    found = []
    for page in pages:
        session, start = Session(address), time.monotonic()
        answer = await session.open(page)
        found.append(time.monotonic() - start)
        await session.close()
        assert not answer.errors
    return found


TEXTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "grows": (lambda folder: replaced(folder, [("q", "qq")] * 40), "qqqqqqqq"),
    "backtracks": (lambda folder: split(folder, "(?:q|qq){20}!"), "q" * 700),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_that_an_uploaded_tokenizer_makes_enormous_ends_in_a_sentence(
    kind: str, server: tuple[str, int], tmp_path: Path
) -> None:
    address, pid = server
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    TEXTS[kind][0](folder)

    async def attacked() -> None:
        await visited(address, "map", "masks")
        alone, before = median(await visited(address, *["masks"] * 3)), megabytes(pid)
        async with opened(address) as (attacker,):
            assert not (await attacker.upload("gpt2.zip", zipped(folder))).errors
            typed = asyncio.create_task(attacker.write("input", TEXTS[kind][1]))
            others = await visited(address, *["masks"] * 5)
            told = await typed
            for _ in range(5):  # a run that made way for another has not said all
                if said(told):
                    break
                told = await attacker.write("input", TEXTS[kind][1])
            assert "tokenizer of gpt2 cannot work on this" in said(told)
            assert not told.errors
            assert median(others) < SLOWER * alone
            told = await attacker.write("input", "the dog runs")
            assert "cannot work" not in said(told)
            assert not told.errors
        assert megabytes(pid) < before + GROWTH

    completed(attacked())


def test_two_files_that_take_long_to_read_hold_up_no_page(server: tuple[str, int], tmp_path: Path) -> None:
    address, _ = server
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    split(folder, "(?:x|xx){20}!")  # a text that every tokenizer is tried with has 200 of them
    data = zipped(folder)

    async def attacked() -> None:
        await visited(address, "masks", "positions")
        alone = median(await visited(address, *["masks", "positions"] * 2))
        async with opened(address, 3) as attackers:
            uploads = [asyncio.create_task(one.upload("gpt2.zip", data)) for one in attackers]
            await asyncio.sleep(1)
            others = list[float]()
            while len(others) < 6 and not any(task.done() for task in uploads):
                others += await visited(address, ["masks", "positions"][len(others) % 2])
            assert len(others) > 2
            assert median(others) < SLOWER * alone
            for task in uploads:
                task.cancel()

    completed(attacked())
