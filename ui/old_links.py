"""Links of before: `/` with what Translate has and the map not leads to Translate, `/checkpoints` to Your model.

Two screens of Align are screens of Learning now.
"""

from urllib.parse import parse_qsl

import streamlit as st
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OF_TRANSLATE = frozenset(
    (
        *("beam", "penalty", "longest", "force", "node"),
        *("kind", "layer", "head", "words", "special", "pair", "heads", "view"),
        *("scores", "relative", "image", "threshold", "written", "step", "by", "also", "here"),
    )
)
"""Parameters of Translate's addresses, now and ever before, that the map does not have, which has its place now."""

OF_WEIGHTS = "checkpoints"
"""Where the page Your model was when it took weights alone."""


OF_LEARNING = {("screen", "lesson"), ("screen", "training")}
"""Parameters of Align's addresses when it had those screens."""


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
    if path.removeprefix("/") == f"{base}/align".removeprefix("/") and not OF_LEARNING.isdisjoint(parse_qsl(query)):
        return "learning"
    is_first = path.endswith("/") and path.strip("/") == base
    is_old = is_first and not OF_TRANSLATE.isdisjoint(key for key, _ in parse_qsl(query, True))
    return "translate" if is_old else None
