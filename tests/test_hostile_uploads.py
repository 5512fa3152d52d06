"""A real server, under a bound on its memory, whose readers bring what is made to end it: the others notice nothing."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from benchmarks.websocket import Response, Session
from heedmap.checkpoint.worker.pool import MOST_WORKERS
from tests.browser.visiting import ROOT, start_server
from tests.checkpoint.huggingface.families import write_folder
from tests.checkpoint.worker.test_remote_tokenizer import replaced, split
from tests.fuzzing import children, processor_seconds
from tests.loops import completed
from tests.safe.hostile import zip_of
from tests.waiting import PATIENCE

MEMORY_BYTES = 8 * 1024**3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The address of the dashboard, and the id of its process."""
    process, address = start_server(ROOT / "app.py", tmp_path_factory.mktemp("server") / "app.log")
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    yield address, process.pid
    assert process.poll() is None, "the server ended"
    process.terminate()
    process.wait(timeout=PATIENCE)


def said(answer: Response) -> str:
    """What boxes of a page say."""
    boxes = [element.alert.body for element in answer.elements if element.WhichOneof("type") == "alert"]
    return " ".join(boxes).replace("\\", "")


@asynccontextmanager
async def opened(address: str, count: int = 1, page: str = "your_model") -> AsyncIterator[list[Session]]:
    """Sessions on a page, by default the one that takes files."""
    sessions = [Session(address) for _ in range(count)]
    try:
        for one in sessions:
            assert not (await one.open(page)).errors
        yield sessions
    finally:
        for one in sessions:
            await one.close()


async def visited(address: str, *pages: str) -> None:
    """Somebody else visits these pages, and sees each of them whole."""
    for page in pages:
        async with opened(address, page=page):
            pass


def zipped(folder: Path) -> bytes:
    """A folder as a ZIP."""
    return zip_of(*((f"{folder.name}/{file.name}", file.read_bytes()) for file in sorted(folder.iterdir())))


TEXTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "grows": (lambda folder: replaced(folder, [("q", "qq")] * 40), "qqqqqqqq"),
    "backtracks": (lambda folder: split(folder, "(?:q|qq){20}!"), "q" * 700),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_that_an_uploaded_tokenizer_makes_enormous_ends_in_a_sentence(
    kind: str, server: tuple[str, int], tmp_path: Path
) -> None:
    """Others visit their pages meanwhile."""
    address, _ = server
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    TEXTS[kind][0](folder)

    async def attacked() -> None:
        async with opened(address) as (attacker,):
            assert not (await attacker.upload("gpt2.zip", zipped(folder))).errors
            typed = asyncio.create_task(attacker.write("input", TEXTS[kind][1]))
            await visited(address, *["masks"] * 5)
            told = await typed
            for _ in range(5):  # a run that made way for another has not said all
                if said(told):
                    break
                told = await attacker.write("input", TEXTS[kind][1])
            assert "tokenizer of gpt2 cannot work on this" in said(told)
            assert not told.errors
            told = await attacker.write("input", "the dog runs")
            assert "cannot work" not in said(told)
            assert not told.errors

    completed(attacked())


def busy_workers(server: int) -> list[int]:
    """The workers of a server that have been at work for a second of a processor."""
    workers = [worker for child in children(server) for worker in children(child)]
    return [pid for pid in workers if processor_seconds(pid) > 1]


def test_files_that_take_long_to_read_hold_up_no_page(server: tuple[str, int], tmp_path: Path) -> None:
    """Pages come to their end while the workers still work: a page that waited for one would come after it."""
    address, pid = server
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    split(folder, "(?:.|..){15}[^A-Za-z .]", times=5000)  # a minute for the text that every tokenizer is tried with
    (folder / "vocab.txt").write_bytes(b" " * 60_000_000)  # nobody reads it; a worker may take 11 s more for it
    data = zipped(folder)

    async def attacked() -> None:
        await visited(address, "masks", "positions")  # what is prepared once
        async with opened(address, MOST_WORKERS + 1) as attackers:
            uploads = [asyncio.create_task(one.upload("gpt2.zip", data)) for one in attackers]
            while len(busy := busy_workers(pid)) < 2:
                assert not any(task.done() for task in uploads)
                await asyncio.sleep(0.1)
            await visited(address, "masks", "positions")
            assert set(busy) <= set(busy_workers(pid)), "a worker ended first"
            assert len(busy_workers(pid)) <= MOST_WORKERS < len(uploads)
            assert not any(task.done() for task in uploads)
            for task in uploads:
                task.cancel()

    completed(attacked())


def test_only_a_page_with_an_uploader_takes_files(server: tuple[str, int]) -> None:
    async def sent() -> None:
        async with opened(server[0], page="masks") as (session,):
            with pytest.raises(HTTPError, match="413"):
                await session.upload("model.pt", b"x" * 3_000)

    completed(sent())
