"""Links from before the map was the first page: `/` with what only Translate has in its address leads to Translate."""

from urllib.parse import parse_qsl

import streamlit as st
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OF_TRANSLATE = frozenset(
    (
        *("model", "text", "beam", "penalty", "longest", "force", "node"),
        *("kind", "layer", "head", "words", "special", "pair", "heads", "view"),
        *("scores", "relative", "image", "threshold", "written", "step", "word", "by", "also", "here"),
    )
)
"""Parameters of Translate's addresses, now and ever before. The map, which has its place now, has none of them."""


class OldLinks:
    """Middleware: the first page, asked for with Translate's parameters, is the page Translate."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is asked, or answer with where it is now: HTTP status 307, so no browser keeps it for good."""
        query = scope.get("query_string", b"").decode("latin-1")
        if scope["type"] == "http" and scope["method"] == "GET" and is_old(scope["path"], query):
            await RedirectResponse(f"translate?{query}")(scope, receive, send)
            return
        await self.app(scope, receive, send)


def is_old(path: str, query: str) -> bool:
    """Whether an address is one that Translate had when it was the first page."""
    is_first = path.endswith("/") and path.strip("/") == str(st.get_option("server.baseUrlPath")).strip("/")
    return is_first and not OF_TRANSLATE.isdisjoint(key for key, _ in parse_qsl(query, True))
