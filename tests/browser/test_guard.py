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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Callable[[], list[list[str]]]]]:
    """A server's address, and what it has asked the network for so far: each deed and its host."""
    notes = tmp_path / "sockets.txt"
    recorded = {"PYTHONPATH": f"{RECORDING}:{ROOT}", "SOCKETS": str(notes)}
    process, address = start_server(ROOT / "app.py", tmp_path / "app.log", **recorded)
    yield address, lambda: [line.split(" ", 1) for line in notes.read_text().splitlines()]
    process.terminate()
    process.wait(timeout=PATIENCE)


def handshake(address: str, **headers: str) -> int:
    """The status with which the server answers a websocket: 101 opens it."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=PATIENCE)
    asked = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    asked["Sec-WebSocket-Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
    connection.request("GET", "/_stcore/stream", headers=asked | headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_nobody_outside_is_asked_and_other_sites_pages_are_refused(
    server: tuple[str, Callable[[], list[list[str]]]], visit: Callable[..., Visit]
) -> None:
    address, asked = server
    page = visit(f"{address}/masks?lang=zh&screen=conventions").page  # the first visit after a start is a link
    expect(page.get_by_role("heading", name="掩码", exact=True)).to_be_visible()
    expect(page.get_by_test_id("stSidebar")).to_contain_text("课程")
    expect(page.get_by_test_id("stSidebar").get_by_text("简体中文")).to_be_visible()
    expect(page.locator("[data-testid=stMain] code").filter(has_text="visible.any")).to_be_visible()
    assert [handshake(address, Origin=origin) for origin in FOREIGN] == [403] * len(FOREIGN)
    own = [{}, {"Origin": address}]
    assert [handshake(address, **headers) for headers in own] == [101] * len(own)
    hosts = {host for _, host in asked()}
    assert hosts <= {"localhost", "127.0.0.1", "::1"}
    bound = {host for deed, host in asked() if deed == "socket.bind"}
    assert bound <= {"localhost", "127.0.0.1"}
    assert bound


def test_every_answer_carries_the_policy(serve: Callable[[Path], str]) -> None:
    place = urlsplit(serve(ROOT / "app.py"))
    for path in ["/", "/masks", "/_stcore/health", "/static/nothing.js", "/media/nothing", "/_stcore/upload_file/x/y"]:
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=PATIENCE)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS), path
        connection.close()
