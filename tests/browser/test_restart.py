"""Two servers behind a proxy, as `deploy/` has them: one is killed, and a page that is open goes on at the other."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visiting import PATIENCE, start_server, until
from tests.deploying import CADDY

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
ADDRESS = "/translate?text=Two+dogs+are+playing+in+the+snow.&layer=1&head=2&lang=zh"
SECRET = {"STREAMLIT_SERVER_COOKIE_SECRET": "the same for both"}


def shown(page: Page, written: str) -> tuple[str, str]:
    """The address, and what is said of the head that is shown, once the page has written this translation."""
    expect(page.get_by_text(written, exact=True).first).to_be_visible()
    head = page.get_by_text("第 1 层的头 2").first
    expect(head).to_be_visible()
    return urlsplit(page.url).query, head.inner_text()


@contextmanager
def proxy_before(servers: list[str], log: Path) -> Iterator[str]:
    """Caddy before some servers, with the project's own file; gives its address, which answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        site = f"http://127.0.0.1:{probe.getsockname()[1]}"
    environment = os.environ | {"HEEDMAP_SITE": site, "HEEDMAP_SERVERS": " ".join(servers)}
    command = [CADDY, "run", "--config", str(ROOT / "deploy" / "Caddyfile"), "--adapter", "caddyfile"]
    with log.open("wb") as output:
        proxy = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"{site}/_stcore/health", timeout=5):
                    break
            except OSError:
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
        yield site
    finally:
        proxy.terminate()
        proxy.wait(PATIENCE)


def test_a_page_survives_the_death_of_its_server(tmp_path: Path, visit: Any) -> None:
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    with ThreadPoolExecutor(2) as together:
        started = list(together.map(lambda log: start_server(ROOT / "app.py", log, **SECRET), logs))
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
