"""Coroutines in tests: each runs in a loop of its own, in a thread of its own; and requests to an ASGI app."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from starlette.types import ASGIApp

T = TypeVar("T")


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """What it returns. In the thread of a test there may be a running loop already: a browser's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


class Answer(NamedTuple):
    """What an app answered, and how many pieces of the request's body it has not read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    unread: int


def answered(app: ASGIApp, address: str, method: str = "GET", body: Iterable[bytes] = (b"",), **headers: str) -> Answer:
    """What an ASGI app answers to a request; names of headers have `_` for `-`."""
    pieces, sent = list(body), list[Any]()
    path, _, query = address.partition("?")

    async def receive() -> dict[str, Any]:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    asked = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": asked}
    completed(app(scope, receive, send))  # type: ignore[arg-type]
    told = {name.decode(): value.decode() for name, value in sent[0].get("headers", ())}
    return Answer(sent[0]["status"], told, b"".join(one.get("body", b"") for one in sent), len(pieces))
