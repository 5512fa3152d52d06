"""Who may open a websocket: this server's own pages, and what is configured; and what every answer is made into."""

import errno
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from heedmap.runs.concurrency import LOOK, Slots
from tests.loops import answered
from tests.waiting import until
from ui.guard import HEADERS, POLICY, STALLED, Guard, inline_scripts, welcome

HOST = "heedmap.example:8501"


REFUSED = (
    *("https://localhost:3000", "http://127.0.0.1", "http://localhost", "http://localhost:9", "http://[::1]:80"),
    *("http://heedmap.example", f"http://{HOST}.other.example", "http://other.example", "http://other.example:8501"),
    *("http://localhost.other.example", "http://localhost@other.example", "http://other.example/localhost"),
    *("localhost", "null", "", "http://[::1"),
)


def test_only_own_pages_open_a_websocket() -> None:
    """The port of this server is 8501, its name is localhost: what is printed at the start opens."""
    assert welcome(Headers({"host": HOST}))
    assert all(welcome(Headers({"host": HOST, "origin": one})) for one in (f"http://{HOST}", "http://localhost:8501"))
    assert not [one for one in REFUSED if welcome(Headers({"host": HOST, "origin": one}))]
    assert not welcome(Headers({"host": "", "origin": "http://"}))


ALLOWED = ("server.corsAllowedOrigins", ["https://front.example", "http://localhost:3000", "any-port.example"])


@pytest.mark.parametrize(
    ("option", "value", "origin", "allowed"),
    [
        (*ALLOWED, "https://front.example", True),
        (*ALLOWED, "http://localhost:3000", True),
        (*ALLOWED, "http://localhost:3001", False),
        (*ALLOWED, "http://localhost", False),
        (*ALLOWED, "https://any-port.example:9", True),
        ("browser.serverAddress", "front.example", "https://front.example", True),
        ("server.enableCORS", False, "https://front.example", True),
    ],
)
def test_what_is_configured_may_too_at_its_port(
    option: str, value: object, origin: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = Headers({"host": HOST, "origin": origin})
    assert not welcome(headers)
    known = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: value if name == option else known(name))
    assert welcome(headers) is allowed


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
        ("/media/0a1b.html", "text/html; charset=utf-8", 200),
        ("/translate/media/0a1b.html", "text/html", 404),
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
    found = answered(Guard(answer), f"/{base}{path}" if base else path)
    assert found.status == status
    assert set(map(str.lower, HEADERS)) <= set(found.headers)
    assert found.body == (b"not found" if path.endswith("metrics") else b"page")


def test_a_server_whose_turns_have_all_been_held_for_a_minute_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Slots(1)
    monkeypatch.setattr("ui.guard.turns", turns)

    def status(now: float, path: str = "/_stcore/health") -> int:
        return answered(Guard(PlainTextResponse("ok"), lambda: now), path).status

    with ThreadPoolExecutor(1) as threads:
        with turns.slot():
            assert status(1e9) == 200, "nobody waits to draw"
            threads.submit(turns.have, LOOK)
            until(lambda: turns._waiting[LOOK])
            (since,) = turns._waiting[LOOK].values()
            now = since + STALLED + 1
            assert [status(since + 1), status(now), status(now, "/translate")] == [200, 503, 200]
        until(lambda: not turns._waiting[LOOK])
        assert status(1e9) == 200


@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSPC, "no space left"), (errno.EMFILE, "too many files and connections")]
)
def test_what_the_system_refuses_is_a_sentence_once_all_has_arrived(number: int, says: str) -> None:
    async def app(_scope: object, receive: Any, _send: object) -> None:
        await receive()
        raise OSError(number, "refused")

    found = answered(Guard(app), "/_stcore/upload_file/a/b", "PUT", [b"1", b"2", b"3"])
    assert (found.status, found.unread) == (507, 0)
    assert says in found.body.decode()


def test_other_errors_and_answers_that_were_begun_stay_what_they_are() -> None:
    async def other(_scope: object, _receive: object, _send: object) -> None:
        raise OSError(errno.ECONNRESET, "gone")

    async def begun(_scope: object, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise OSError(errno.ENOSPC, "full")

    for app in (other, begun):
        with pytest.raises(OSError, match=r"gone|full"):
            answered(Guard(app), "/")


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
