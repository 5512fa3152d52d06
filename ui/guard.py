"""What stands between the network and Streamlit: headers that bind the browser, and a door for other people's pages."""

import base64
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Sent

from heedmap.messages import Message
from heedmap.runs.concurrency import turns
from heedmap.safe.limits import MEGABYTE
from ui.frame import SCRIPT
from ui.store import limits, log
from ui.store.limits import shortage

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

PAGES = {"", *(page.stem for page in (Path(__file__).parents[1] / "pages").glob("*.py"))}
"""Paths at which there is a page."""

FILES = "media/"
"""Below this lie files that a page hands over; of those that are not there, Streamlit itself says 404."""

CLOSED = "_stcore/metrics"
"""Names of caches, numbers of sessions: nobody's business."""

HEALTH, STALLED = "_stcore/health", 60.0
"""What is asked whether the server is well: not where a run has waited for its turn to draw for so many seconds. Then
other runs have held all turns since, and no page comes."""

LOCAL = {"localhost", "127.0.0.1", "::1"}
"""The names of this machine to itself."""

USUAL_PORTS = {"http": 80, "https": 443}


class Guard:
    """Middleware: every answer carries `HEADERS`, and a websocket from another site's page is refused at once.

    Streamlit refuses such a websocket too, but first asks a server on the internet for this machine's address, and
    every reader waits meanwhile; and it lets any page of this machine in, whatever its port.

    Streamlit answers 200 at every path, where a page can say that there is none: here that is 404. Where the system
    refuses a request's file, as in a full temporary folder, the answer is a sentence and not a connection that breaks.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self._clock = app, clock
        self._readers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it: HTTP status 403 where a websocket is asked for."""
        if scope["type"] == "websocket":
            await self._connected(scope, receive, send)
        elif scope["type"] != "http":
            await self.app(scope, receive, send)
        elif (path := _path(scope)) == CLOSED:
            await PlainTextResponse("not found", 404, HEADERS)(scope, receive, send)
        elif path == HEALTH and turns.waited(self._clock()) > STALLED:
            await PlainTextResponse(Message("server_stalled"), 503, HEADERS)(scope, receive, send)
        elif path in PAGES and self._readers >= limits.readers():
            await PlainTextResponse(Message("server_no_files"), 503, HEADERS)(scope, receive, send)
        else:
            await self._answered(path, scope, receive, send)

    async def _answered(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def with_headers(message: Sent) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                is_html = headers.get("content-type", "").startswith("text/html")
                if message["status"] == 200 and is_html and path not in PAGES and not path.startswith(FILES):
                    message["status"] = 404
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, receive, with_headers)
        except OSError as error:
            short = shortage(error)
            if begun or short is None:
                raise
            log.failed(error)
            # The rest of a body may come, up to what an upload may have: who still sends does not hear an answer.
            left, more = int(st.get_option("server.maxUploadSize")) * MEGABYTE, True
            while more and left > 0:
                message = await receive()
                more = message.get("more_body", False)
                left -= len(message.get("body", b""))
            await PlainTextResponse(short, 507, HEADERS)(scope, receive, send)

    async def _connected(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A websocket, for as long as it is open. Who comes when there are too many would take it from all others."""
        full = self._readers >= limits.readers()
        if full:
            log.event("full", "warning", readers=self._readers)
        if full or not welcome(Headers(scope=scope)):
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        self._readers += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._readers -= 1


def _path(scope: Scope) -> str:
    """Where in the app a request goes, without the path below which the app lies."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    path: str = scope.get("path", "").strip("/")
    return path.removeprefix(base).strip("/") if path == base or path.startswith(f"{base}/") else path


def welcome(headers: Headers) -> bool:
    """Whether a websocket may be opened: by this server's own pages, or an origin that is configured.

    Another port of this machine is another site: any program's page may be there. A client that names no origin is no
    browser, so no other site's page speaks through it.
    """
    origin = headers.get("origin")
    if origin is None or not st.get_option("server.enableCORS"):
        return True
    try:
        site = urlsplit(origin)
        port = site.port or USUAL_PORTS.get(site.scheme)
    except ValueError:  # "http://[::1": no address at all
        return False
    if site.netloc and site.netloc == headers.get("host"):
        return True
    for name in st.get_option("server.corsAllowedOrigins"):
        known = urlsplit(name if "://" in name else f"//{name}")
        if (site.hostname, port) == (known.hostname, known.port or USUAL_PORTS.get(known.scheme, port)):
            return True
    name, ports = st.get_option("browser.serverAddress"), {st.get_option("server.port")}
    if name not in LOCAL:
        ports |= set(USUAL_PORTS.values())  # of a proxy that does not say for whom it asks
    return site.hostname == name and port in ports
