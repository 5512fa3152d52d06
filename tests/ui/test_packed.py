"""Static files travel packed for whoever reads gzip, packed once; everything else passes as it is."""

import asyncio
import gzip
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ui import packed
from ui.packed import Packed

SCRIPT = b"const answer = 42;\n" * 500
STATIC = {"content-type": "application/javascript", "cache-control": "public, immutable, max-age=9", "etag": '"1"'}


class Served:
    """An app that answers every path with one file, behind the middleware."""

    def __init__(self, body: bytes = SCRIPT, status: int = 200, **headers: str | None) -> None:
        self.body, self.status = body, status
        told = STATIC | {name.replace("_", "-"): value for name, value in headers.items()}
        self.headers = {name: value for name, value in told.items() if value is not None}
        self.middleware = Packed(self._app)
        self.times = 0

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.times += 1
        raw = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        raw += [(b"content-length", str(len(self.body)).encode()), (b"accept-ranges", b"bytes")]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        await send({"type": "http.response.body", "body": self.body[:100], "more_body": True})
        await send({"type": "http.response.body", "body": self.body[100:]})

    def asked(self, path: str = "/static/js/a.js", method: str = "GET", **headers: str) -> tuple[dict[str, str], bytes]:
        """The answer's headers and body."""
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "headers": raw}
        with ThreadPoolExecutor(1) as pool:  # in this thread a browser's loop may be running
            pool.submit(asyncio.run, self.middleware(scope, None, send)).result()  # type: ignore[arg-type]
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return told, b"".join(one.get("body", b"") for one in sent[1:])


def test_a_static_file_is_packed_once_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    times = []
    compress = gzip.compress

    def counted(*arguments: Any) -> bytes:
        times.append(arguments)
        return compress(*arguments)

    monkeypatch.setattr("ui.packed.gzip.compress", counted)
    served = Served()
    for _ in range(3):
        headers, body = served.asked(accept_encoding="gzip, deflate, br")
        assert gzip.decompress(body) == SCRIPT
        assert len(body) < len(SCRIPT) / 10
        assert headers["content-encoding"] == "gzip"
        assert headers["content-length"] == str(len(body))
        assert (headers["etag"], headers["vary"]) == ('W/"1"', "Accept-Encoding")
        assert "accept-ranges" not in headers
    assert len(times) == 1
    assert served.times == 1, "a name stands for one content: what is kept is not asked for again"
    served.body = b"let other = 0;" * 100
    assert gzip.decompress(served.asked("/static/js/b.js", accept_encoding="gzip")[1]) == served.body
    assert served.asked()[1] == served.body, "who reads no gzip is answered by the app behind"
    served.asked(accept_encoding="gzip", if_none_match='"1"')
    assert served.times == 4, "whether it is another than before, the app behind says"


@pytest.mark.parametrize(
    ("served", "asked"),
    [
        ({}, {}),
        ({}, {"accept_encoding": "br, gzip;q=0"}),
        ({}, {"accept_encoding": "gzip", "range": "bytes=0-9"}),
        ({}, {"accept_encoding": "gzip", "method": "HEAD"}),
        ({"cache_control": "no-cache"}, {"accept_encoding": "gzip"}),
        ({"content_type": "image/png"}, {"accept_encoding": "gzip"}),
        ({"content_encoding": "br"}, {"accept_encoding": "gzip"}),
        ({"etag": None}, {"accept_encoding": "gzip"}),
        ({"status": 404}, {"accept_encoding": "gzip"}),
    ],
)
def test_everything_else_passes_as_it_is(served: dict[str, Any], asked: dict[str, Any]) -> None:
    headers, body = Served(**served).asked(**asked)
    assert body == SCRIPT
    assert headers["content-length"] == str(len(SCRIPT))
    assert headers.get("content-encoding") != "gzip"


def test_no_more_is_kept_than_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST_KEPT", 100)
    served = Served()
    headers, body = served.asked(accept_encoding="gzip")
    assert "content-encoding" in headers
    headers, body = served.asked("/static/js/b.js", accept_encoding="gzip")
    assert body == SCRIPT
    assert "content-encoding" not in headers
