"""Coroutines in tests: each runs in a loop of its own, in a thread of its own."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """What it returns. In the thread of a test there may be a running loop already: a browser's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
