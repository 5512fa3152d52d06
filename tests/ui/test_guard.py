"""Who may open a websocket: this server's own pages, and what is configured; and what every answer is made into."""

import errno
from collections.abc import Iterable
from typing import Any

import pytest
import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from tests.loops import completed
from ui.guard import HEADERS, POLICY, Guard, inline_scripts, welcome

HOST = "heedmap.example:8501"


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        (f"http://{HOST}", True),
        ("https://localhost:3000", False),
        ("http://127.0.0.1", False),
        ("http://localhost", False),
        ("http://localhost:9", False),
        ("http://localhost:8501", True),
        ("http://[::1]:80", False),
        ("http://heedmap.example", False),
        (f"http://{HOST}.other.example", False),
        ("http://other.example", False),
        ("http://localhost.other.example", False),
        ("http://localhost@other.example", False),
        ("http://other.example/localhost", False),
        ("http://other.example:8501", False),
        ("localhost", False),
        ("null", False),
        ("", False),
    ],
)
def test_only_own_pages_open_a_websocket(origin: str | None, allowed: bool) -> None:
    """The port of this server is 8501, its name is localhost: what is printed at the start opens."""
    headers = {"host": HOST} | ({"origin": origin} if origin is not None else {})
    assert welcome(Headers(headers)) is allowed


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("server.corsAllowedOrigins", ["https://front.example"]),
        ("browser.serverAddress", "front.example"),
        ("server.enableCORS", False),
    ],
)
def test_what_is_configured_may_too(option: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = Headers({"host": HOST, "origin": "https://front.example"})
    assert not welcome(headers)
    known = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: value if name == option else known(name))
    assert welcome(headers)


def test_an_origin_that_is_configured_has_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    known = st.get_option
    names = ["http://localhost:3000", "front.example"]
    monkeypatch.setattr(st, "get_option", lambda name: names if name == "server.corsAllowedOrigins" else known(name))
    origins = ["http://localhost:3000", "http://localhost:3001", "http://localhost", "https://front.example:9"]
    assert [welcome(Headers({"host": HOST, "origin": origin})) for origin in origins] == [True, False, False, True]


def answered(path: str, app: Any, body: Iterable[bytes] = (b"",)) -> tuple[int, dict[str, str], bytes, int]:
    """What `Guard` before an app answers a request: status, headers, body, and how many pieces of it were not read."""
    pieces = list(body)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "PUT", "path": path, "headers": []}
    completed(Guard(app)(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(one.get("body", b"") for one in sent), len(pieces)


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("/", "text/html; charset=utf-8", 200),
        ("/translate", "text/html", 200),
        ("/what_if/", "text/html", 200),
        ("/.git/config", "text/html", 404),
        ("/app.py", "text/html", 404),
        ("/nothing/translate", "text/html", 404),
        ("/translates", "text/html", 404),
        ("/static/index.js", "text/javascript", 200),
        ("/_stcore/health", "text/plain", 200),
        ("/_stcore/metrics", "text/plain", 404),
    ],
)
@pytest.mark.parametrize("base", ["", "below/here"])
def test_a_path_without_a_page_is_404(path: str, kind: str, status: int, base: str, monkeypatch) -> None:
    """Streamlit answers all of them with the page that says that there is none."""
    known = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: base if name == "server.baseUrlPath" else known(name))
    answer = PlainTextResponse("page", media_type=kind)
    found, headers, body, _ = answered(f"/{base}{path}" if base else path, answer)
    assert found == status
    assert set(map(str.lower, HEADERS)) <= set(headers)
    assert body == (b"not found" if path.endswith("metrics") else b"page")


@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSPC, "no space left"), (errno.EMFILE, "too many files and connections")]
)
def test_what_the_system_refuses_is_a_sentence_once_all_has_arrived(number: int, says: str) -> None:
    async def app(_scope: object, receive: Any, _send: object) -> None:
        await receive()
        raise OSError(number, "refused")

    status, _, body, unread = answered("/_stcore/upload_file/a/b", app, [b"1", b"2", b"3"])
    assert (status, unread) == (507, 0)
    assert says in body.decode()


def test_other_errors_and_answers_that_were_begun_stay_what_they_are() -> None:
    async def other(_scope: object, _receive: object, _send: object) -> None:
        raise OSError(errno.ECONNRESET, "gone")

    async def begun(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise OSError(errno.ENOSPC, "full")

    for app in (other, begun):
        with pytest.raises(OSError, match=r"gone|full"):
            answered("/", app)


def test_a_broken_host_opens_nothing() -> None:
    assert not welcome(Headers({"host": "", "origin": "http://"}))
    assert not welcome(Headers({"host": HOST, "origin": "http://[::1"}))


def test_scripts_in_a_page_are_allowed_by_their_fingerprint_alone() -> None:
    page = "<script>alert(1)</script> <script src='x.js'></script>\n<script>\n  two()\n</script>"
    one = "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
    assert inline_scripts(page)[0] == one
    assert len(inline_scripts(page)) == 2
    assert inline_scripts(page.replace("two", "three"))[1] != inline_scripts(page)[1]
    allowed = POLICY["script-src"].split()
    assert all(source in {"'self'", "blob:"} or source.startswith("'sha256-") for source in allowed)


def test_the_policy_names_no_other_server() -> None:
    assert not [where for where in POLICY.values() if "*" in where or "." in where or "http" in where]
    assert "'unsafe-inline'" not in POLICY["script-src"]
    assert "'unsafe-eval'" not in POLICY["script-src"]
