"""What stands around every page before any of it is drawn: styles that nothing may wait for, scripts, its language.

Streamlit draws with its own measures until a page's styles arrive, and then everything moves. So the styles stand in
the page that loads everything else. It names the language too, for screen readers and hyphenation. A script, which
has to be there before Streamlit's own, keeps the browser's history what its reader made it. Another one holds all
components: it is fetched while Streamlit's own are, and kept by the browser; else each visit would bring them in
messages over the websocket, packed anew for each visitor.
"""

import json
import re
from functools import cache
from hashlib import blake2b
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heedmap.messages import LANGUAGES
from heedmap.teaching.data import terms
from ui.components.shared import mounting
from ui.patches.session import apply
from ui.texts import KEY, in_language

STYLE = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.rglob("styles.css")))
"""What the page says before anything is drawn: the frame's own, and the heights that each page's panels keep, which
stand with them."""

_OWN = ("shared/address.js", "shared/placed.js", "path/keys.js", "path/terms.js")
_SCRIPTS = (*_OWN, *(["patches/history.js"] if apply("history") else []))
_TEXTS = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in _SCRIPTS]
_TERMS = {in_language(code, f"glossary.{name}").lower(): name for code in LANGUAGES for name in terms()}
"""The glossary's terms by their names in every language, which `terms.js` underlines in captions."""

SCRIPT = "".join(f"<script>{text}</script>" for text in _TEXTS).replace("/* names */ {}", json.dumps(_TERMS))
"""What runs before anything else does; `ui.guard` lets it."""

PRELOADED_FONT = re.compile(r'<link\s+rel="preload"[^>]*as="font"[^>]*/?>')
"""Streamlit's own font, which the theme does not use: it would be fetched for nothing."""

NOT_ASKED = (b"if-none-match", b"if-modified-since", b"range", b"accept-encoding")
"""What the app behind is not asked of a page: whether it is another than before, since what stands in it depends on the
address, and to pack it, since it is changed on its way."""

KEPT = {"cache-control": "public, immutable, max-age=31536000"}
"""A name stands for one content, so a browser need not ask again."""


class Frame:
    """Middleware: the page that loads everything else carries `STYLE`, scripts and the language of its address.

    It answers for the file of components too, wherever the pages' addresses begin.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        mounting.page_brings_scripts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; a page is changed on its way back."""
        asked = scope["path"].rpartition("/")[2] if scope["type"] == "http" else ""
        known = {components(): mounting.ALL, mounting.MAP: mounting.MAP}
        if asked in known:
            headers = {**KEPT, "etag": f'"{components()}"', "accept-ranges": "none", "sourcemap": f"./{mounting.MAP}"}
            script = Response(mounting.script(known[asked]), media_type="text/javascript", headers=headers)
            await script(scope, receive, send)
            return
        # Files have an ending, and what is asked of the server itself begins with an underscore.
        if scope["type"] != "http" or scope["method"] != "GET" or "." in asked or scope["path"].startswith("/_"):
            await self.app(scope, receive, send)
            return
        scope = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name not in NOT_ASKED]}
        begun: list[Message] = []
        body = bytearray()

        async def changed(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                begun.append(message)
            elif not begun:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    page = framed(body.decode("utf-8"), language_of(scope["query_string"])).encode("utf-8")
                    headers = MutableHeaders(scope=begun[0])
                    headers["content-length"] = str(len(page))
                    for name in ("etag", "last-modified", "accept-ranges"):
                        del headers[name]
                    await send(begun[0])
                    await send({"type": "http.response.body", "body": page})

        await self.app(scope, receive, changed)


def framed(page: str, language: str) -> str:
    """A page with `STYLE`, `SCRIPT`, components' scripts and a language; what it preloads for nothing is left out."""
    page = re.sub(r'<html lang="[^"]*"', f'<html lang="{language}"', page, count=1)
    page = PRELOADED_FONT.sub("", page)
    page = page.replace("<head>", f"<head>{SCRIPT}", 1)
    loads = f'<script type="module" async src="./{components()}"></script>'  # nothing waits for it but pictures
    return page.replace("</head>", f"{loads}<style>{STYLE}</style></head>", 1)


def language_of(query: bytes) -> str:
    """The language that an address asks for, if it is one; English otherwise."""
    asked = parse_qs(query.decode("latin-1")).get(KEY, [""])[-1]
    return asked if asked in LANGUAGES else "en"


def _is_page(message: Message) -> bool:
    headers = MutableHeaders(scope=message)
    return headers.get("content-type", "").startswith("text/html") and "content-encoding" not in headers


@cache
def components() -> str:
    """What the file of all components is called, beside the pages: by its content."""
    return f"components-{blake2b(mounting.script(mounting.ALL).encode(), digest_size=8).hexdigest()}.js"
