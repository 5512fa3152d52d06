"""Who may open a websocket: this server's own pages, this machine, and what is configured."""

import pytest
import streamlit as st
from starlette.datastructures import Headers

from ui.guard import POLICY, inline_scripts, welcome

HOST = "heedmap.example:8501"


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        (f"http://{HOST}", True),
        ("https://localhost:3000", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:80", True),
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
def test_only_own_pages_and_this_machine_open_a_websocket(origin: str | None, allowed: bool) -> None:
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
