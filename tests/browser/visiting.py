"""A server for any script, a Chromium, and visits that know when a run has finished: for tests and benchmarks."""

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

from playwright.sync_api import Browser, Locator, Page, WebSocket, sync_playwright
from playwright.sync_api import Error as PageError
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests import chromium

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds that a server or a run may take before a test gives up; machines that test are often busy."""


RENDERED = "[data-testid=stApp][data-test-script-state=notRunning]"
"""The app, once the page shows all that the run said that finished last."""

MOVE = """url => {
  History.prototype.pushState.call(history, {}, "", url);
  dispatchEvent(new PopStateEvent("popstate"));
}"""


def until(page: Page, holds: Callable[..., object], *of: object) -> None:
    """Wait until what `holds` asks of a page is so: what is drawn follows what was done, on a busy machine much later.

    It is given `of`, and says no by False, by an assertion that fails, or because what it reads is half there; what it
    said last is raised when patience ends.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found = holds(*of)
            assert found is None or found
            break
        except (AssertionError, ValueError, PageError):
            if time.monotonic() > deadline:
                raise
        page.wait_for_timeout(20)


@contextmanager
def chromium_opened(*arguments: str) -> Iterator[Browser]:
    """A Chromium, closed after the block; `arguments` are more of its command line."""
    path = chromium.find_or_install()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*chromium.ARGUMENTS, *arguments])
        yield browser
        browser.close()


class Visit:
    """A page, and what has passed between it and its server."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.sent = 0
        """Frames that the page has sent."""
        self.received = 0
        """Bytes that the page has received over its socket."""
        self.started, self.finished = 0, 0
        """Script runs that have started, and that have finished."""
        self.whole = 0
        """Those of the finished ones that drew the whole page, not a part of it."""
        self._is_followed = False
        """Whether the last run that finished made way for another one, which has not started yet."""
        self._socket: WebSocket | None = None
        page.on("websocket", self._listen)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    @contextmanager
    def run(self) -> Iterator[None]:
        """Do something that starts a run; leaves when the page shows a run that started since, and none goes on.

        A run that was under way already knows nothing of what was done, so its end says nothing.
        """
        before = self.started
        yield
        deadline = time.monotonic() + PATIENCE
        while self.started == before or self.finished < self.started or self._is_followed:
            if time.monotonic() > deadline:
                seen = f"{before} had started before, {self.started} now, {self.finished} finished"
                follows = ", and another one was to follow" if self._is_followed else ""
                raise TimeoutError(f"no script run started and finished within {PATIENCE:.0f} s: {seen}{follows}")
            self.page.wait_for_timeout(20)
        self.page.locator(RENDERED).wait_for()

    def at_rest(self) -> tuple[int, int]:
        """Frames that were sent and runs that finished, once neither has grown for a while: a slow page sends late."""
        before = None
        while before != (before := (self.sent, self.finished)):
            self.page.wait_for_timeout(300)
        return before

    def move(self, url: str) -> None:
        """Ask for another address of the app that is open, as Forward does: its scripts are not loaded again."""
        with self.run():
            self.page.evaluate(MOVE, url)

    def leave(self) -> None:
        """Close the page; its window forgets what the page kept, but for scripts."""
        if not self.page.is_closed():
            self.page.evaluate("localStorage.clear()")
            self.page.close()
        self.page.context.clear_cookies()

    def drawn(self, locator: Locator, draws: int = 1) -> int:
        """Wait until a canvas component has drawn at least `draws` times; returns how often it has."""
        locator.wait_for()
        until(self.page, lambda: int(locator.get_attribute("data-draws") or 0) >= draws)
        return int(locator.get_attribute("data-draws") or 0)

    def _listen(self, socket_: WebSocket) -> None:
        self._socket = socket_
        # Nobody hears any more of a run that an earlier address left under way.
        self.finished, self._is_followed = self.started, False
        socket_.on("framesent", lambda _: setattr(self, "sent", self.sent + 1))
        socket_.on("framereceived", lambda payload: self._hear(socket_, payload))

    def _hear(self, socket_: WebSocket, payload: str | bytes) -> None:
        self.received += len(payload)
        if socket_ is not self._socket:
            return
        message = ForwardMsg.FromString(payload) if isinstance(payload, bytes) else ForwardMsg()
        kind = message.WhichOneof("type")
        self.whole += kind == "script_finished" and message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
        self.started += kind == "new_session"
        if kind == "script_finished":
            self.finished = self.started  # a run that a newer one replaced may end without a message
        if kind in {"new_session", "script_finished"}:
            self._is_followed = message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN


def start_server(script: Path, log: Path, *arguments: str, **settings: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server of this script, given `arguments`, that answers, and its address; `settings` are environment variables.

    Raises:
        RuntimeError: it stopped, or did not answer in time.
    """
    if "STREAMLIT_SERVER_PORT" not in settings:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            settings["STREAMLIT_SERVER_PORT"] = str(probe.getsockname()[1])
    environment = os.environ | {"PYTHONPATH": str(ROOT), "STREAMLIT_SERVER_HEADLESS": "true", **settings}
    with log.open("wb") as output:
        command = [sys.executable, "-m", "streamlit", "run", str(script), *(["--", *arguments] if arguments else [])]
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{settings['STREAMLIT_SERVER_PORT']}"
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
