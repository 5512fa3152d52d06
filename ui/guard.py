"""What stands between the network and Streamlit: headers that bind the browser, and a door for other people's pages."""

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.frame import SCRIPT

INDEX = Path(st.__file__).parent / "static" / "index.html"
"""The page of Streamlit that loads everything else."""


def inline_scripts(page: str) -> tuple[str, ...]:
    """What a policy calls the scripts that stand in a page itself: each by its fingerprint, so no other runs."""
    scripts: list[str] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return tuple(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


POLICY = {
    "default-src": "'self'",
    # The canvas components are scripts that Streamlit loads from a blob: address.
    "script-src": " ".join(["'self'", "blob:", *inline_scripts(INDEX.read_text(encoding="utf-8") + SCRIPT)]),
    "worker-src": "'self' blob:",
    # Streamlit and Plotly write their styles into the page.
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "media-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "connect-src": "'self'",
    "object-src": "'none'",
    "frame-src": "'none'",
    "frame-ancestors": "'self'",
    "base-uri": "'self'",
    "form-action": "'self'",
}
"""The Content-Security-Policy: nothing is fetched from, or sent to, another server than this one."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "; ".join(f"{what} {where}" for what, where in POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    # An address holds what was typed.
    "Referrer-Policy": "same-origin",
}
"""What every answer says."""

LOCAL = {"localhost", "127.0.0.1", "::1"}
"""The names of this machine to itself."""


class Guard:
    """Middleware: every answer carries `HEADERS`, and a websocket from another site's page is refused at once.

    Streamlit refuses such a websocket too, but first asks a server on the internet for this machine's address, and
    every reader waits meanwhile.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it: HTTP status 403 where a websocket is asked for."""
        if scope["type"] == "websocket" and not welcome(Headers(scope=scope)):
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)


def welcome(headers: Headers) -> bool:
    """Whether a websocket may be opened: by this server's own pages, this machine, or an origin that is configured.

    A client that names no origin is no browser, so no other site's page speaks through it.
    """
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        site = urlsplit(origin)
    except ValueError:  # "http://[::1": no address at all
        return False
    if site.netloc and site.netloc == headers.get("host"):
        return True
    configured = [*st.get_option("server.corsAllowedOrigins"), st.get_option("browser.serverAddress")]
    names = {urlsplit(name if "://" in name else f"//{name}").hostname for name in configured}
    return site.hostname in LOCAL | names or not st.get_option("server.enableCORS")
