"""A server for any script, a Chromium, and visits that know when a run has finished: for tests and benchmarks."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, WebSocket, sync_playwright
from playwright.sync_api import Error as PageError
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests import chromium, waiting
from tests.deploying import free_port, launched, status_of

ROOT = Path(__file__).parents[2]

RENDERED = "[data-testid=stApp][data-test-script-state=notRunning]"
"""The app, once the page shows all that the run said that finished last."""

MOVE = """url => {
  History.prototype.pushState.call(history, {}, "", url);
  dispatchEvent(new PopStateEvent("popstate"));
}"""


IDLE = """() => new Promise((done) => {
  setTimeout(done, 1_000);
  requestIdleCallback(() => requestAnimationFrame(() => setTimeout(done)));
})"""
"""Resolves once the page has nothing left to do and has drawn what it did; one that another covers draws nothing."""

LATER = 300
"""Milliseconds after which the app's own scripts send what they put off until the reader pauses."""


def until(page: Page, holds: Callable[..., object], *of: object) -> None:
    """Wait until what `holds` asks of a page is so: what is drawn follows what was done, on a busy machine much later.

    It is given `of`, and says no by False, by an assertion that fails, or because what it reads is half there.
    """
    pause = lambda seconds: page.wait_for_timeout(1_000 * seconds)  # noqa: E731
    waiting.until(holds, *of, pause=pause, no=(AssertionError, ValueError, PageError))


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
        self.asked = 0
        """Runs that the page has asked for."""
        self.brought = 0
        """Bytes that the page has received since the last run began."""
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

        def over() -> None:
            follows = ", and another one is to follow" if self._is_followed else ""
            seen = f"{before} had started before, {self.started} now, {self.finished} finished{follows}"
            assert self.started > before and self.finished == self.started and not follows, seen  # noqa: PT018

        until(self.page, over)
        self.page.locator(RENDERED).wait_for()

    def idle(self) -> None:
        """Wait until the page has done what it can do at once."""
        self.page.evaluate(IDLE)

    def at_rest(self) -> tuple[int, int]:
        """Runs that were asked for and that finished, once none goes on and the page asks for no more by itself."""
        before = None

        def rests() -> None:
            nonlocal before
            last, before = before, (self.asked, self.finished)
            self.idle()
            self.page.wait_for_timeout(LATER)
            self.idle()
            assert self.finished == self.started, "a run goes on"
            assert last == before == (self.asked, self.finished), "it asks again and again"

        until(self.page, rests)
        return self.asked, self.finished

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
        socket_.on("framesent", self._ask)
        socket_.on("framereceived", lambda payload: self._hear(socket_, payload))

    def _ask(self, payload: str | bytes) -> None:
        if isinstance(payload, bytes):
            self.asked += BackMsg.FromString(payload).WhichOneof("type") == "rerun_script"

    def _hear(self, socket_: WebSocket, payload: str | bytes) -> None:
        if socket_ is not self._socket:
            return
        message = ForwardMsg.FromString(payload) if isinstance(payload, bytes) else ForwardMsg()
        kind = message.WhichOneof("type")
        self.brought = len(payload) + (0 if kind == "new_session" else self.brought)
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
    settings.setdefault("STREAMLIT_SERVER_PORT", str(free_port()))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "STREAMLIT_SERVER_HEADLESS": "true", **settings}
    command = [sys.executable, "-m", "streamlit", "run", str(script), *(["--", *arguments] if arguments else [])]
    server = launched(command, log, cwd=ROOT, env=environment)
    address = f"http://127.0.0.1:{settings['STREAMLIT_SERVER_PORT']}"
    try:
        waiting.until(lambda: status_of(f"{address}/_stcore/health") == 200 or server.poll() is not None)
        assert server.poll() is None
    except AssertionError as error:
        server.kill()
        server.wait()
        raise RuntimeError(f"Streamlit did not serve {script}:\n{log.read_text(errors='replace')}") from error
    return server, address
