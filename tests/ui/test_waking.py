"""The event loop wakes for whatever it is handed, by few bytes."""

import asyncio
import socket
import sys
from asyncio import base_events
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from ui.waking import send_at_once, wake_once

PATIENCE = 20


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("often")
def test_everything_that_threads_hand_over_is_done_and_a_loop_that_sleeps_wakes_up() -> None:
    """Each hands over the next thing once the last one was done (so the loop sleeps in between), or many at once."""
    loop, done = asyncio.new_event_loop(), list[int]()
    wake_once(loop)

    def hand_over(number: int) -> None:
        for step in range(200):
            answered = Event()
            for _ in range(step % 3):
                loop.call_soon_threadsafe(done.append, number)
            loop.call_soon_threadsafe(answered.set)
            assert answered.wait(PATIENCE), "the loop sleeps on"

    with ThreadPoolExecutor(5) as threads:
        threads.submit(loop.run_forever)
        asked = [threads.submit(hand_over, number) for number in range(4)]
        try:
            for one in asked:
                one.result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            loop._csock.send(b"\0")  # type: ignore[attr-defined]  # where it does not wake up by itself
    loop.close()
    assert len(done) == 4 * sum(step % 3 for step in range(200))


def test_a_loop_that_is_awake_is_not_woken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, sent = asyncio.SelectorEventLoop(), list[int]()
    write = loop._write_to_self  # type: ignore[attr-defined]

    def counted() -> None:
        sent.append(1)
        write()

    monkeypatch.setattr(loop, "_write_to_self", counted)
    wake_once(loop)
    with ThreadPoolExecutor(1) as thread:  # another loop may run in this one
        for _ in range(2):
            for _ in range(40):
                loop.call_soon_threadsafe(lambda: None)
            thread.submit(loop.run_until_complete, asyncio.sleep(0.001)).result()
    loop.close()
    assert len(sent) == 2


def test_a_connection_sends_short_messages_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = base_events
    monkeypatch.setattr(base_events, "_set_nodelay", whole._set_nodelay)  # it is as before after the test
    send_at_once()

    async def served() -> int:
        told = asyncio.get_running_loop().create_future()

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            told.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = socket.socket(socket.AF_INET)  # names no protocol, as Streamlit's does not
        listening.bind(("127.0.0.1", 0))
        server = await asyncio.start_server(connected, sock=listening)
        with socket.create_connection(listening.getsockname(), timeout=PATIENCE):
            found = int(await told)
        server.close()
        await server.wait_closed()
        return found

    with ThreadPoolExecutor(1) as apart:  # in this thread a browser's loop may be running
        assert apart.submit(asyncio.run, served()).result() != 0
