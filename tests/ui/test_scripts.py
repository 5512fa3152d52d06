"""Components' scripts come as one file of the page, and then by no message."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from ui import scripts
from ui.components.shared import bundle, mounting
from ui.frame import framed

DEMO = Path(__file__).parents[1] / "browser" / "pages" / "components.py"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> scripts.Scripts:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"of others"})

    monkeypatch.setattr(mounting, "_by_page", [])
    return scripts.Scripts(app)


def asked(middleware: scripts.Scripts, path: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    with ThreadPoolExecutor(1) as pool:  # in this thread a browser's loop may be running
        pool.submit(asyncio.run, middleware(scope, None, send)).result()  # type: ignore[arg-type]
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(one.get("body", b"") for one in sent[1:])


def test_every_page_loads_the_file_that_is_served(served: scripts.Scripts) -> None:
    found = re.search(r'<script type="module" async src="\./([\w.-]+)"></script>', framed("<head></head>", "en"))
    assert found is not None
    for path in (f"/{found[1]}", f"/behind/a/proxy/{found[1]}"):
        status, headers, body = asked(served, path)
        assert (status, body.decode()) == (200, bundle.script(bundle.ALL))
        assert (
            asked(served, f"{path.rpartition('/')[0]}/{headers['sourcemap'].removeprefix('./')}")[2]
            == bundle.script(bundle.MAP).encode()
        )
        assert headers["content-type"].startswith("text/javascript")
        assert "immutable" in headers["cache-control"]
        assert "etag" in headers, "without it the file is not packed"
    assert asked(served, "/components-0.js")[::2] == (404, b"of others")


def test_a_page_that_loads_the_scripts_gets_none_by_messages(served: scripts.Scripts) -> None:
    page = AppTest.from_file(str(DEMO), default_timeout=60).run()
    sent = [element.proto for element in page.get("bidi_component")]
    assert sent
    assert max(len(one.js_content) for one in sent) < 2_000
