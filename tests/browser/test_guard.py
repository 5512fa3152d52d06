"""The server and the network: whom it asks and serves, its policy, and what becomes of a page whose server dies."""

import http.client
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.parts import saved
from tests.browser.policy import Watched
from tests.browser.visiting import ROOT, Visit, start_server, until
from tests.deploying import proxy_before
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser
RECORDING = Path(__file__).parent / "recording"
FOREIGN = ["http://other.example", "null", "", "http://localhost:9"]


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


def test_the_policy_is_in_force_and_downloads_work_under_it(browser: Browser, serve: Callable[..., str]) -> None:
    """Else what test_fits.py says of views would say nothing."""
    watched = Watched(browser.new_page(accept_downloads=True, reduced_motion="reduce"))  # nothing fades
    page = watched.page
    watched.go(f"{serve(ROOT / 'app.py')}/masks")
    for harm in (
        "document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' }))",
        "document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))",
        "fetch('http://127.0.0.1:9/').catch(() => 0)",
    ):
        page.evaluate(f"() => {{ {harm}; }}")
    page.wait_for_function("window.stopped.length >= 3")
    stopped = " ".join(watched.stopped())
    assert all(what in stopped for what in ("img-src", "script-src-elem inline", "connect-src"))
    assert page.evaluate("window.ran") is None
    watched.told.clear()
    watched.go(f"{serve(ROOT / 'app.py')}/translate?view=downloads")
    for called, ending, begins in (("", ".csv", b"query: "), ("(HTML)", ".html", b"<!doctype html>")):
        button = page.get_by_test_id("stDownloadButton").get_by_role("button").filter(has_text=called).first
        name, data = saved(button)
        assert name.endswith(ending)
        assert data.lower().startswith(begins)
    watched.go(f"{serve(ROOT / 'app.py')}/attention_steps?screen=why")
    plot = page.locator(".js-plotly-plot").first
    plot.hover()
    assert len(saved(plot.locator('.modebar-btn[data-title="Download plot"]'))[1]) > 1000
    assert watched.stopped() == []
    page.close()


ADDRESS = "/translate?text=Two+dogs+are+playing+in+the+snow.&layer=1&head=2&lang=zh"
SECRET = {"STREAMLIT_SERVER_COOKIE_SECRET": "the same for both"}


def shown(page: Page, written: str) -> tuple[str, str]:
    """The address, and what is said of the head that is shown, once the page has written this translation."""
    expect(page.get_by_text(written, exact=True).first).to_be_visible()
    head = page.get_by_text("第 1 层的头 2").first
    expect(head).to_be_visible()
    return urlsplit(page.url).query, head.inner_text()


def test_a_page_survives_the_death_of_its_server(tmp_path: Path, visit: Any) -> None:
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    started = [start_server(ROOT / "app.py", log, **SECRET) for log in logs]
    try:
        with proxy_before([urlsplit(base).netloc for _, base in started], tmp_path / "proxy.log") as site:
            here = visit(site + ADDRESS)
            assert here.started == 1, "the page began alone, without the app around it and without its address"
            before = shown(here.page, "Zwei Hunde spielen im Schnee.")
            with here.run():
                here.page.reload()
            until(here.page, lambda: shown(here.page, "Zwei Hunde spielen im Schnee.") == before)
            assert here.page.evaluate("fetch('/_stcore/metrics').then(answer => answer.status)") == 403
            used = ["checkpoint_loaded name=multi30k-en-de " in log.read_text("utf-8") for log in logs]
            assert sorted(used) == [False, True], "the cookie keeps a browser with one of the two"
            with here.page.expect_websocket():  # that the browser opens by itself, once it has lost its server
                started[used.index(True)][0].kill()
            here.page.locator("[data-testid=stApp][data-test-connection-state=CONNECTED]").wait_for()
            until(here.page, lambda: shown(here.page, "Zwei Hunde spielen im Schnee.") == before)
            here.page.get_by_role("textbox", name="句子").fill("A man is sleeping.")
            with here.run():
                here.page.get_by_role("button", name="运行", exact=True).click()
            asked = {**parse_qs(before[0]), "text": ["A man is sleeping."]}
            until(here.page, lambda: parse_qs(shown(here.page, "Ein Mann schläft.")[0]) == asked)
    finally:
        for server, _ in started:
            server.terminate()
        codes = [server.wait(PATIENCE) for server, _ in started]
    texts = [log.read_text("utf-8") for log in logs]
    assert codes[used.index(False)] in (0, -signal.SIGTERM)
    assert [" info stop " in text for text in texts] == [not one for one in used]
    for text in texts:
        assert " info start " in text
        assert not any(word in text for word in ("Traceback", "Two dogs", "sleeping", "created with a default value"))
