"""The server and the network: it asks nobody, serves this machine alone, and refuses the pages of other sites."""

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.visiting import PATIENCE, ROOT, Visit, start_server
from ui.guard import HEADERS

pytestmark = pytest.mark.browser
RECORDING = Path(__file__).parent / "recording"
FOREIGN = [
    "http://other.example", "https://localhost.other.example", "http://127.0.0.1.other.example:8501",
    "http://localhost@other.example", "null", "file://", "", "http://[::1", "http://localhost:9",
]  # fmt: skip


@pytest.fixture(params=["as configured", "0.0.0.0"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Callable[[], list[list[str]]]]]:
    """A server's address, and what it has asked the network for so far: each deed and its host."""
    notes = tmp_path / "sockets.txt"
    settings = {} if request.param == "as configured" else {"STREAMLIT_SERVER_ADDRESS": request.param}
    recorded = {"PYTHONPATH": f"{RECORDING}:{ROOT}", "SOCKETS": str(notes), **settings}
    process, address = start_server(ROOT / "app.py", tmp_path / "app.log", **recorded)
    yield address, lambda: [line.split(" ", 1) for line in notes.read_text().splitlines()]
    process.terminate()
    process.wait(timeout=PATIENCE)


def opened(address: str, **headers: str) -> int:
    """The status with which the server answers a websocket: 101 opens it."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=PATIENCE)
    handshake = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    handshake["Sec-WebSocket-Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
    connection.request("GET", "/_stcore/stream", headers=handshake | headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_nobody_outside_is_asked_and_other_sites_pages_are_refused(
    server: tuple[str, Callable[[], list[list[str]]]], visit: Callable[..., Visit], request: pytest.FixtureRequest
) -> None:
    address, asked = server
    page = visit(f"{address}/masks?lang=zh&screen=conventions").page  # the first visit after a start is a link
    expect(page.get_by_role("heading", name="掩码", exact=True)).to_be_visible()
    expect(page.get_by_test_id("stSidebar")).to_contain_text("课程")
    expect(page.get_by_test_id("stSidebar").get_by_text("简体中文")).to_be_visible()
    expect(page.locator("[data-testid=stMain] code").filter(has_text="visible.any")).to_be_visible()
    assert [opened(address, Origin=origin) for origin in FOREIGN] == [403] * len(FOREIGN)
    own = [{}, {"Origin": address}]
    assert [opened(address, **headers) for headers in own] == [101] * len(own)
    hosts = {host for _, host in asked()}
    assert hosts <= {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
    bound = {host for deed, host in asked() if deed == "socket.bind"}
    assert bound <= ({"0.0.0.0"} if "0.0.0.0" in request.node.name else {"localhost", "127.0.0.1"})
    assert bound


def test_every_answer_carries_the_policy(serve: Callable[[Path], str]) -> None:
    place = urlsplit(serve(ROOT / "app.py"))
    for path in ["/", "/masks", "/_stcore/health", "/static/nothing.js", "/media/nothing", "/_stcore/upload_file/x/y"]:
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=PATIENCE)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS), path
        connection.close()
