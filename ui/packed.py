"""Scripts and styles travel packed: a new browser fetches a third of the bytes.

Streamlit sends its static files as they are, since packing each anew for each browser costs more than it gains. Their
names change with their content, so each is packed once here, and kept; whoever asks for it again is answered from
memory, without a look at the disk. A new browser asks for a hundred.
"""

import asyncio
import gzip
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEVEL = 6
"""Of gzip: higher ones take several times as long for a few per cent."""

MOST_KEPT = 16_000_000
"""Packed bytes that are kept; what would not fit travels as it is."""

_PACKED_TYPES = re.compile(r"(text|application)/(javascript|css)\b")
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")


class Packed:
    """Middleware: static files that never change are packed with gzip for browsers that read it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._kept: dict[str, tuple[Message, bytes]] = {}
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; a static file is packed on its way back, or taken from what was."""
        asked = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if scope["type"] != "http" or scope["method"] != "GET" or "range" in asked or not _reads_gzip(asked):
            await self.app(scope, receive, send)
            return
        kept = self._kept.get(scope["path"])
        if kept is not None and "if-none-match" not in asked and "if-modified-since" not in asked:
            await _send(*kept, send)
            return
        begun: list[Message] = []
        body = bytearray()

        async def packing(message: Message) -> None:
            if message["type"] == "http.response.start" and _can_be_packed(message):
                begun.append(message)
            elif message["type"] != "http.response.body" or not begun:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await _send(*await self._packed(scope["path"], begun[0], bytes(body)), send)

        await self.app(scope, receive, packing)

    async def _packed(self, path: str, start: Message, body: bytes) -> tuple[Message, bytes]:
        """An answer as it is sent: packed, if there is room to keep it."""
        if path not in self._kept:
            packed = await asyncio.to_thread(gzip.compress, body, LEVEL)  # other requests do not wait
            if self._bytes + len(packed) <= MOST_KEPT and path not in self._kept:
                self._kept[path] = _told(start, packed), packed
                self._bytes += len(packed)
        MutableHeaders(raw=start["headers"]).add_vary_header("Accept-Encoding")
        return self._kept.get(path, (start, body))


def _told(start: Message, packed: bytes) -> Message:
    """How the answer begins that brings a packed file."""
    told = {**start, "headers": list(start["headers"])}
    headers = MutableHeaders(raw=told["headers"])
    headers.add_vary_header("Accept-Encoding")
    headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(packed))
    headers["etag"] = f"W/{headers['etag']}"  # the same content, other bytes
    del headers["accept-ranges"]
    return told


async def _send(start: Message, body: bytes, send: Send) -> None:
    # What stands around adds headers of its own to those of this answer.
    await send({**start, "headers": list(start["headers"])})
    await send({"type": "http.response.body", "body": body})


def _reads_gzip(asked: Headers) -> bool:
    return bool(_GZIP.search(asked.get("accept-encoding", "")))


def _can_be_packed(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return (
        start["status"] == 200
        and "immutable" in headers.get("cache-control", "")
        and "etag" in headers
        and "content-encoding" not in headers
        and bool(_PACKED_TYPES.match(headers.get("content-type", "")))
    )
