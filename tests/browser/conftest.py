"""Real pages in a real Chromium, as fixtures."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser

from tests.browser.visiting import PATIENCE, Visit, start_server


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


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
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
