"""What stands around every page before any of it is drawn: styles that nothing may wait for, and its language.

Streamlit draws with its own measures until a page's styles arrive, and then everything moves. So the styles stand in
the page that loads everything else. It names the language too, for screen readers and hyphenation. A script, which
has to be there before Streamlit's own, keeps the browser's history what its reader made it; another one holds all
components, so that no message has to bring them.
"""

import re
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer.messages import LANGUAGES
from ui import scripts
from ui.patches.session import apply
from ui.path import terms
from ui.texts import KEY

STYLE = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.rglob("styles.css")))
"""What the page says before anything is drawn: the frame's own, and the heights that each page's panels keep, which
stand with them."""

_OWN = ("shared/address.js", "shared/placed.js", "path/keys.js")
_SCRIPTS = (*_OWN, *(["patches/history.js"] if apply("history") else []))
_TEXTS = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in _SCRIPTS]
SCRIPT = "".join(f"<script>{text}</script>" for text in (*_TEXTS, terms.script()))
"""What runs before anything else does; `ui.guard` lets it."""

PRELOADED_FONT = re.compile(r'<link\s+rel="preload"[^>]*as="font"[^>]*/?>')
"""Streamlit's own font, which the theme does not use: it would be fetched for nothing."""

NOT_ASKED = (b"if-none-match", b"if-modified-since", b"range", b"accept-encoding")
"""What the app behind is not asked of a page: whether it is another than before, since what stands in it depends on the
address, and to pack it, since it is changed on its way."""


class Frame:
    """Middleware: the page that loads everything else carries `STYLE`, scripts and the language of its address."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; a page is changed on its way back."""
        if scope["type"] != "http" or scope["method"] != "GET" or not _may_be_a_page(scope["path"]):
            await self.app(scope, receive, send)
            return
        scope = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name not in NOT_ASKED]}
        begun: list[Message] = []
        body = bytearray()

        async def changed(message: Message) -> None:
            if message["type"] == "http.response.start" and not _is_page(message):
                await send(message)
            elif message["type"] == "http.response.start":
                begun.append(message)
            elif not begun:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await _send_page(begun[0], framed(body.decode("utf-8"), language_of(scope["query_string"])), send)

        await self.app(scope, receive, changed)


def framed(page: str, language: str) -> str:
    """A page with `STYLE`, `SCRIPT`, components' scripts and a language; what it preloads for nothing is left out."""
    page = re.sub(r'<html lang="[^"]*"', f'<html lang="{language}"', page, count=1)
    page = PRELOADED_FONT.sub("", page)
    page = page.replace("<head>", f"<head>{SCRIPT}", 1)
    return page.replace("</head>", f"{scripts.tag()}<style>{STYLE}</style></head>", 1)


def language_of(query: bytes) -> str:
    """The language that an address asks for, if it is one; English otherwise."""
    asked = parse_qs(query.decode("latin-1")).get(KEY, [""])[-1]
    return asked if asked in LANGUAGES else "en"


def _may_be_a_page(path: str) -> bool:
    """Files have an ending, and what is asked of the server itself begins with an underscore."""
    last = path.rpartition("/")[2]
    return "." not in last and not path.startswith("/_")


def _is_page(message: Message) -> bool:
    headers = MutableHeaders(scope=message)
    return headers.get("content-type", "").startswith("text/html") and "content-encoding" not in headers


async def _send_page(begun: Message, page: str, send: Send) -> None:
    body = page.encode("utf-8")
    headers = MutableHeaders(scope=begun)
    headers["content-length"] = str(len(body))
    for name in ("etag", "last-modified", "accept-ranges"):
        del headers[name]
    await send(begun)
    await send({"type": "http.response.body", "body": body})
