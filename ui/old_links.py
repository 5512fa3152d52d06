"""Links of before: `/` with what only Translate has in its address leads to Translate, `/checkpoints` to Your model."""

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

OF_WEIGHTS = "checkpoints"
"""Where the page Your model was when it took weights alone."""


class OldLinks:
    """Middleware: addresses that pages had before lead to those pages."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is asked, or answer with where it is now: HTTP status 307, so no browser keeps it for good."""
        query = scope.get("query_string", b"").decode("latin-1")
        now = moved_to(scope["path"], query) if scope["type"] == "http" and scope["method"] == "GET" else None
        if now is not None:
            await RedirectResponse(f"{now}?{query}" if query else now)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def moved_to(path: str, query: str) -> str | None:
    """The page that an address of before leads to now; None for an address that is no older one."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    if path.removeprefix("/") == f"{base}/{OF_WEIGHTS}".removeprefix("/"):
        return "your_model"
    is_first = path.endswith("/") and path.strip("/") == base
    is_old = is_first and not OF_TRANSLATE.isdisjoint(key for key, _ in parse_qsl(query, True))
    return "translate" if is_old else None
