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
from ui.texts import KEY

STYLE = """
[data-testid="stMainBlockContainer"] {
  width: 100% !important; max-width: 110rem !important; padding: 2.9rem 2rem 4rem !important;
}
@media (max-width: 640px) { [data-testid="stMainBlockContainer"] { padding: 2.9rem .8rem 3rem !important; } }
@media (min-width: 769px) {
  [data-testid="stAppViewContainer"]:not(:has([data-testid="stSidebar"])) { padding-left: 300px; }
}
[data-testid="stSidebar"], [data-testid="stMain"] { transition: none !important; }
[data-testid="stCaptionContainer"] { opacity: 1 !important; }
[data-testid="stCaptionContainer"] > * { opacity: .8; }
[data-testid="stBaseButton-primary"], [data-testid="stBaseButton-primaryFormSubmit"],
[data-testid="stPopoverButton"][kind="primary"] {
  color: light-dark(#fff, #10171e) !important;
}
.st-key-examples { flex-wrap: nowrap !important; overflow-x: auto !important; scrollbar-width: thin; }
.st-key-examples > :not(:first-child) { flex: 0 0 14.5rem; }
.st-key-examples button { width: 100%; min-height: 2rem; padding: .1rem .5rem; white-space: nowrap; }
.st-key-language { position: absolute !important; height: 0; overflow: hidden; }
.st-key-request-area { min-height: 12.5rem; }
.st-key-first-screen { min-height: 18.2rem; justify-content: flex-end !important; }
.st-key-align-panel { min-height: 30rem; }
.st-key-map-area { min-height: 38rem; }
.st-key-panel { min-height: 44rem; }
.st-key-head-choice { min-height: 18rem; }
.st-key-sequence-head-choice { min-height: 5.5rem; }
.st-key-all-heads { min-height: 22rem; }
.st-key-overview .st-key-head-choice { min-height: 8rem; }
.st-key-overview .st-key-all-heads { min-height: 11rem; }
[data-testid="stSidebar"] [data-testid="stElementContainer"]:has(> [data-testid="stSkeleton"]):not([class*="st-key"]) {
  height: 2rem; margin: -6px 0; overflow: hidden;
}
:is(.st-key-screen, .st-key-show) [data-testid="stSkeleton"] { height: 2rem; }
:is(.st-key-lang, .st-key-read, .st-key-layer, .st-key-head, .st-key-kind, .st-key-off) { min-height: 3.75rem; }
:is(.st-key-bar, [data-testid="stSidebar"] .st-key-model) { min-height: 4.25rem; }
.st-key-masks:not(:has([data-draws])) { min-height: 32rem; }
.st-key-cards:not(:has(.atlas)) { min-height: 36rem; }
@media (min-width: 641px) {
  .st-key-change-area { min-height: 31.8rem; }
  .st-key-sentences { min-height: 14.6rem; }
  .st-key-change-area .st-key-text { min-height: 7.3rem; }
  .st-key-donor { min-height: 5.6rem; }
}
.st-key-sequence-area { min-height: 18.5rem; }
[class*="st-key-upload-"] { min-height: 6rem; }
.st-key-chosen, .st-key-look-area { min-height: 4.25rem; }
@media (min-width: 641px) {
  .st-key-choices { min-height: 6rem; }
  .st-key-result-area { min-height: 7.4rem; }
  [class*="st-key-upload-"]:not(:has([data-testid="stFileUploaderFile"])) { height: 6rem; }
}
.st-key-previous [data-testid="stMarkdownContainer"], .st-key-next [data-testid="stMarkdownContainer"] {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
}
@media (min-width: 641px) { .st-key-models { display: none; } }
@media (max-width: 640px) {
  [data-testid="stMain"]:has(.st-key-worked)
  :is([data-testid="stColumn"], [data-testid="stColumn"] > [data-testid="stVerticalBlock"]) { display: contents; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-worked) { order: -1; }
  [data-testid="stColumn"]:has(.st-key-models input:not(:checked))
  [data-testid="stLayoutWrapper"]:has(> .st-key-of-models) { display: none; }
}
.st-key-tree-around { overflow-x: auto; }
.st-key-tree { max-width: none !important; flex-shrink: 0; }
.st-key-columns > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] { flex-wrap: wrap; }
.st-key-columns > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"] {
  min-width: min(100%, 19rem);
}
"""
"""What no page's content changes; what belongs to a component stands with it."""

_SCRIPTS = ("shared/address.js", *(["patches/history.js"] if apply("history") else []))
SCRIPT = "".join(f"<script>{(Path(__file__).parent / name).read_text(encoding='utf-8')}</script>" for name in _SCRIPTS)
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
