"""Real pages in a real Chromium, as fixtures."""

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.visiting import ROOT, Visit, start_server
from tests.waiting import PATIENCE


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], str]]:
    """`serve(script)` is the address at which Streamlit serves it; one server a script, stopped after the last test."""
    addresses: dict[Path, str] = {}
    servers: list[subprocess.Popen[bytes]] = []

    def address(script: Path) -> str:
        if script not in addresses:
            log = tmp_path_factory.mktemp("server") / f"{script.stem}.log"
            server, addresses[script] = start_server(script, log)
            servers.append(server)
        return addresses[script]

    yield address
    for server in servers:
        server.terminate()
    for server in servers:
        server.wait(timeout=PATIENCE)


@pytest.fixture(scope="session")
def windows(browser: Browser) -> Callable[[int, float, bool], BrowserContext]:
    """`windows(number, scale, touch)` is a browser's window that keeps Streamlit's scripts from test to test.

    A window of its own for each visit would read and compile them anew: most of a second of a core.
    """

    @cache
    def window(number: int, scale: float, touch: bool) -> BrowserContext:
        return browser.new_context(device_scale_factor=scale, has_touch=touch, accept_downloads=True)

    return window


@pytest.fixture
def visit(windows: Callable[[int, float, bool], BrowserContext]) -> Iterator[Callable[..., Visit]]:
    """`visit(url, dark=False, width=1280, height=900, scale=1, touch=False, motion=False)` opens a page.

    It returns once the page's first run is done. Each visit of a test has a window of its own, which remembers nothing
    but scripts of earlier tests; nothing fades or glides unless `motion` asks for it, as in the browser of a reader who
    wants none. A test fails when a page that it visited raised an error in JavaScript.
    """
    visits: list[Visit] = []

    def go(
        url: str,
        *,
        dark: bool = False,
        width: int = 1280,
        height: int = 900,
        scale: float = 1.0,
        touch: bool = False,
        motion: bool = False,
    ) -> Visit:
        window = windows(len(visits), scale, touch)
        if not window.pages:  # it stays open, and with it the process that has compiled Streamlit's scripts
            window.new_page().goto(f"{'/'.join(url.split('/')[:3])}/_stcore/health")
        page = window.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(
            color_scheme="dark" if dark else "light", reduced_motion="no-preference" if motion else "reduce"
        )
        visits.append(Visit(page))
        with visits[-1].run():
            page.goto(url)
        return visits[-1]

    yield go
    for one in visits:
        one.leave()
    assert [error for one in visits for error in one.errors] == []


@pytest.fixture
def opened(serve: Callable[[Path], str], visit: Callable[..., Visit]) -> Callable[..., Visit]:
    """`opened(address, ".map", ...)` opens the app there, once these parts are drawn; options are those of `visit`.

    An address may be that of another visit's page.
    """

    def go(address: str = "", *parts: str, **window: Any) -> Visit:
        path = address.split("/", 3)[3] if address.startswith("http") else address
        here = visit(f"{serve(ROOT / 'app.py')}/{path}", **window)
        for part in parts:
            here.drawn(here.page.locator(part).first)
        return here

    return go


@pytest.fixture
def demo(serve: Callable[[Path], str], visit: Callable[..., Visit]) -> Callable[..., Visit]:
    """`demo("shape=...&show=lines", dark=True ...)` visits the page that shows the components, once they are drawn.

    It shows the grid of all heads and the lines of a head view, unless `show` names others (maps, board, bitext).
    """
    classes = {"grid": "all-heads", "lines": "head-view", "maps": "alignments", "board": "matrices", "bitext": "bitext"}

    def go(query: str = "", **window: float) -> Visit:
        opened = visit(f"{serve(Path(__file__).parent / 'pages' / 'components.py')}/?{query}", **window)
        (shown,) = parse_qs(query).get("show", ["grid,lines"])
        for name in shown.split(","):
            opened.drawn(opened.page.locator(f".{classes[name]}"))
        return opened

    return go
