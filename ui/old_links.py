"""Addresses of earlier releases: one table of what was renamed, and one redirect to where it stands today."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import streamlit as st
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from transformer.sites import Site

OF_TRANSLATE = frozenset(
    (
        *("beam", "penalty", "longest", "force", "node"),
        *("kind", "layer", "head", "words", "special", "pair", "heads", "view"),
        *("scores", "relative", "image", "threshold", "written", "step", "by", "also", "here"),
    )
)
"""Parameters that Translate had while it was the first page, and that the map, which has its place now, has not."""

KEYS: Mapping[str, Mapping[str, str]] = {
    "": {"sentence": "text"},
    "align": {"first": "model"},
    "sequences": {"relative-windows": "relative"},
    "translate": {"step": "written"},
}
"""Parameters of a page that have other names now; on all pages, `checkpoint` is `model`."""

WORDS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("atlas", "screen"): {"map": "cards", "vectors": "head"},
    ("sequences", "view"): {"heads": "windows"},
    ("translate", "kind"): {"Cross": "decoder.cross", "Decoder self": "decoder.self", "Encoder self": "encoder.self"},
    ("translate", "view"): {
        name: name.lower().replace(" ", "_")
        for name in ("Heatmap", "Head view", "Sources", "Beams", "Downloads")
    } | {"Step by step": "steps"},
}  # fmt: skip
"""Values that have other names now, by page and parameter."""


class OldLinks:
    """Middleware: addresses that pages had before lead to those pages."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is asked, or answer with where it is now: HTTP status 307, so no browser keeps it for good."""
        query = scope.get("query_string", b"").decode("latin-1")
        now = moved_to(scope["path"], query) if scope["type"] == "http" and scope["method"] == "GET" else None
        if now is not None:
            await RedirectResponse(now)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def moved_to(path: str, query: str) -> str | None:
    """The relative address of today for an older one; None where nothing of it was renamed."""
    base = "/".join(("", *str(st.get_option("server.baseUrlPath")).strip("/").split("/"))).rstrip("/")
    page = path.removeprefix(f"{base}/") if path.startswith(f"{base}/") else None
    if page is None or not (page.isidentifier() or not page):  # nothing that a browser takes for another server
        return None
    said = dict(parse_qsl(query, keep_blank_values=True))
    now = _page_of_today(page, said)
    renamed = {"checkpoint": "model", **KEYS.get(now, {})}
    found = dict[str, str]()
    for key, value in said.items():
        new = renamed.get(key, key)
        if new != key and new in said:
            continue
        found[new] = WORDS.get((now, new), {}).get(value, value)
    step, mark = said.get("step", ""), said.get("mark", "").partition(":")
    if now == "translate" and "written" not in said and step:  # older addresses count steps from 0, with their rows
        first = step.partition("-")[0]
        found["written"] = str(int(first) + 1) if first.isascii() and first.isdecimal() and len(first) < 9 else ""
    if now == "align" and mark[2]:  # the panel and the word were one parameter
        found["mark"], found["word"] = mark[0], said.get("word", mark[2])
    if now == "atlas" and said.get("site"):  # a head was named by its site, and two screens are others now
        site = Site(found.pop("site"))
        found |= {"kind": site.group} | ({} if site.layer is None else {"layer": str(site.layer)})
    if now == page and found == said:
        return None
    return f"{now or base or '/'}{'?' if found else ''}{urlencode(found)}"


def _page_of_today(page: str, said: Mapping[str, str]) -> str:
    """Where a page is now, or the screen of it that the parameters ask for."""
    if page == "checkpoints":
        return "your_model"
    if page == "align" and said.get("screen") in {"lesson", "training"}:
        return "learning"
    return "translate" if not page and OF_TRANSLATE & said.keys() else page
