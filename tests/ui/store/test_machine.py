"""Files and connections: as many as the system lets, and never so many readers that nobody is served."""

import asyncio
import resource
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from tests.loops import completed
from ui.guard import Guard
from ui.store import machine


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def allow(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def test_the_limit_is_raised_to_what_the_system_lets() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow(512)
    expected = machine.MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, machine.MOST_FILES)
    assert machine.raised() == expected
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (expected, hard)


@pytest.mark.parametrize(("files", "readers"), [(64, 8), (160, 20), (1_024, 128), (4_096, 896)])
def test_readers_leave_room_for_the_server(files: int, readers: int) -> None:
    allow(files)
    assert machine.readers() == readers


def test_one_reader_too_many_gets_a_sentence_and_the_others_stay() -> None:
    """The reader who comes when all places are taken is refused; when one has gone there is a place again."""
    leave = asyncio.Event()

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            await leave.wait()
        else:
            await PlainTextResponse("page")(scope, receive, send)

    guard = Guard(app)

    async def asked(kind: str) -> dict[str, Any]:
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        await guard({"type": kind, "method": "GET", "path": "/", "headers": []}, receive, send)
        return sent[0] | {"body": b"".join(one.get("body", b"") for one in sent)}

    async def visits() -> None:
        readers = [asyncio.create_task(asked("websocket")) for _ in range(machine.readers())]
        await asyncio.sleep(0)
        assert (await asked("websocket"))["type"] == "websocket.close"
        page = await asked("http")
        assert page["status"] == 503
        assert b"too many files and connections open" in page["body"]
        leave.set()
        assert {reader["type"] for reader in await asyncio.gather(*readers)} == {"websocket.accept"}
        assert (await asked("websocket"))["type"] == "websocket.accept"
        assert (await asked("http"))["status"] == 200

    allow(160)
    completed(visits())
