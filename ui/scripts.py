"""Which scripts a page fetches before anything on it asks for them.

Components' scripts are a file of the page, as Streamlit's own are: fetched while those are, and kept by the browser.
Without it each visit would bring them in messages over the websocket, packed anew for each visitor.

Streamlit's page fetches what draws a kind of element once there is one. What draws those of every page here is fetched
while the page itself starts, when the network has nothing to do, and not after.
"""

import json
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ui.components.shared import bundle
from ui.components.shared.mounting import page_brings_scripts

HEADERS = {"cache-control": "public, immutable, max-age=31536000"}
"""A name stands for one content, so a browser need not ask again."""

ON_EVERY_PAGE = ("BidiComponent", "Button", "ButtonGroup", "Checkbox", "Html", "PageLink", "Selectbox", "TextArea")
"""Kinds of elements, as Streamlit calls their scripts."""

MANIFEST = Path(st.__file__).parent / "static" / "manifest.json"
"""What Streamlit says of its own scripts: by the source of each its file, and which others it imports."""


@cache
def name() -> str:
    """What the file is called, beside the pages: by its content."""
    return f"components-{blake2b(bundle.libraries().encode(), digest_size=8).hexdigest()}.js"


def tag() -> str:
    """What loads the file into a page; nothing waits for it but pictures."""
    return f'<script type="module" async src="./{name()}"></script>'


@cache
def preloads() -> str:
    """What fetches the scripts of `ON_EVERY_PAGE`, with those that they import and the page does not have anyway."""
    known: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    page = _imported([source for source, one in known.items() if one.get("isEntry")], known)
    needed = _imported([source for source, one in known.items() if one.get("name") in ON_EVERY_PAGE], known) - page
    files = sorted(known[source]["file"] for source in needed)
    return "".join(f'<link rel="modulepreload" crossorigin href="./{file}">' for file in files)


def _imported(sources: list[str], known: dict[str, dict[str, Any]]) -> set[str]:
    """Scripts with all that they import, and what those import."""
    found: set[str] = set()
    while sources:
        source = sources.pop()
        if source not in found:
            found.add(source)
            sources += known[source].get("imports", [])
    return found


class Scripts:
    """Middleware: answers for the file, wherever the pages' addresses begin, and says that it is there."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        page_brings_scripts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is asked of others."""
        if scope["type"] != "http" or scope["path"].rpartition("/")[2] != name():
            await self.app(scope, receive, send)
            return
        headers = {**HEADERS, "etag": f'"{name()}"', "accept-ranges": "none"}
        await Response(bundle.libraries(), media_type="text/javascript", headers=headers)(scope, receive, send)
