"""The page that loads everything else: its styles, its language, and what is left as it is."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ui.frame import SCRIPT, STYLE, Frame, framed, language_of
from ui.guard import INDEX, POLICY, inline_scripts

PAGE = INDEX.read_text(encoding="utf-8")


def answered(path: str, body: bytes = PAGE.encode(), *, query: bytes = b"", **headers: str) -> tuple[Any, bytes, Any]:
    """Status line, body, and the request's headers as the app behind the frame sees them."""
    sent: list[Any] = []
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        told = {"content-type": "text/html; charset=utf-8", "etag": "old", "content-length": str(len(body)), **headers}
        raw = [(name.encode(), value.encode()) for name, value in told.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        await send({"type": "http.response.body", "body": body[:100], "more_body": True})
        await send({"type": "http.response.body", "body": body[100:]})

    async def send(message: Any) -> None:
        sent.append(message)

    asked = [(b"if-none-match", b"old"), (b"accept-encoding", b"gzip"), (b"accept", b"*/*")]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": asked}
    with ThreadPoolExecutor(1) as pool:  # in this thread a browser's loop may be running
        pool.submit(asyncio.run, Frame(app)(scope, None, send)).result()  # type: ignore[arg-type]
    return sent[0], b"".join(one.get("body", b"") for one in sent[1:]), seen


@pytest.mark.parametrize(("query", "language"), [(b"", "en"), (b"text=a&lang=zh", "zh"), (b"lang=%22%3E", "en")])
def test_a_page_comes_with_its_styles_and_its_language(query: bytes, language: str) -> None:
    start, body, scope = answered("/align", query=query)
    page, headers = body.decode(), dict(start["headers"])
    assert f'<html lang="{language}"' in page
    assert page.index(STYLE) < page.index("</head>")
    assert 'as="font"' not in page
    assert page.index(SCRIPT) < page.index("<script", page.index(SCRIPT) + 1)  # before any other
    assert set(inline_scripts(page)) <= set(POLICY["script-src"].split())  # by their fingerprints
    assert headers[b"content-length"] == str(len(body)).encode()
    assert b"etag" not in headers
    assert [name for name, _ in scope["headers"]] == [b"accept"]


def test_what_is_no_page_passes_as_it_is() -> None:
    for path, told in [("/static/js/index.js", {}), ("/_stcore/health", {}), ("/", {"content-type": "image/png"}),
                       ("/", {"content-encoding": "gzip"})]:  # fmt: skip
        start, body, _ = answered(path, **told)
        assert body == PAGE.encode()
        assert dict(start["headers"])[b"etag"] == b"old"


def test_only_known_languages_are_named() -> None:
    assert language_of(b"lang=zh&lang=en") == "en"
    assert language_of(b"lang=xx") == "en"
    assert framed('<html lang="en"></head>', "zh").startswith('<html lang="zh"><script type="module"')
