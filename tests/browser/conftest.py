"""Real pages in a real Chromium: a server for any script, and visits that know when a run has finished."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect, sync_playwright
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests import chromium

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds that a server or a run may take before a test gives up; machines that test are often busy."""


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], str]]:
    """`serve(script)` is the address at which Streamlit serves it; one server a script, stopped after the last test."""
    addresses: dict[Path, str] = {}
    servers: list[subprocess.Popen[bytes]] = []

    def address(script: Path) -> str:
        if script not in addresses:
            log = tmp_path_factory.mktemp("server") / f"{script.stem}.log"
            server, addresses[script] = _start(script, log)
            servers.append(server)
        return addresses[script]

    yield address
    for server in servers:
        server.terminate()
    for server in servers:
        server.wait(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    path = chromium.find_or_install()
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(chromium.ARGUMENTS))
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., "Visit"]]:
    """`visit(url, dark=False, width=1280, height=900, scale=1, touch=False)` opens a page once its first run is done.

    A test fails when a page that it visited raised an error in JavaScript.
    """
    visits: list[Visit] = []

    def go(
        url: str, *, dark: bool = False, width: int = 1280, height: int = 900, scale: float = 1.0, touch: bool = False
    ) -> Visit:
        context = browser.new_context(
            color_scheme="dark" if dark else "light",
            viewport={"width": width, "height": height},
            device_scale_factor=scale,
            has_touch=touch,
            accept_downloads=True,
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        visits.append(Visit(page))
        with visits[-1].run():
            page.goto(url)
        return visits[-1]

    yield go
    for one in visits:
        one.page.context.close()
    assert [error for one in visits for error in one.errors] == []


class Visit:
    """A page, and what has passed between it and its server."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.sent = 0
        """Frames that the page has sent."""
        self.received = 0
        """Bytes that the page has received over its socket."""
        self.finished = 0
        """Script runs that have finished."""
        page.on("websocket", self._listen)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    @contextmanager
    def run(self) -> Iterator[None]:
        """Do something that starts a run; leaves when a run has finished since."""
        before = self.finished
        yield
        deadline = time.monotonic() + PATIENCE
        while self.finished == before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no script run finished within {PATIENCE:.0f} s")
            self.page.wait_for_timeout(20)

    def drawn(self, locator: Locator, draws: int = 1) -> int:
        """Wait until a canvas component has drawn at least `draws` times; returns how often it has."""
        locator.wait_for()
        deadline = time.monotonic() + PATIENCE
        while (count := int(locator.get_attribute("data-draws") or 0)) < draws:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} of {draws} drawings within {PATIENCE:.0f} s")
            self.page.wait_for_timeout(20)
        return count

    def _listen(self, socket_: WebSocket) -> None:
        socket_.on("framesent", lambda _: self._count_sent())
        socket_.on("framereceived", self._count_received)

    def _count_sent(self) -> None:
        self.sent += 1

    def _count_received(self, payload: str | bytes) -> None:
        self.received += len(payload)
        if isinstance(payload, bytes) and ForwardMsg.FromString(payload).WhichOneof("type") == "script_finished":
            self.finished += 1


def _start(script: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A server of this script that answers, and its address.

    Raises:
        RuntimeError: it stopped, or did not answer in time.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "STREAMLIT_SERVER_PORT": str(port),
        "STREAMLIT_SERVER_ADDRESS": "127.0.0.1",
        "STREAMLIT_SERVER_HEADLESS": "true",
    }
    with log.open("wb") as output:
        command = [sys.executable, "-m", "streamlit", "run", str(script)]
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=1):
                return server, address
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.1)
    server.kill()
    server.wait()
    raise RuntimeError(f"Streamlit did not serve {script}:\n{log.read_text(errors='replace')}")
