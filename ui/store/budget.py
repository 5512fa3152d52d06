"""How much memory kept results may take, all kinds and all sessions together; what was used longest ago goes first.

Results are measured, not counted: the record of a sentence takes 0.3 MB, one of 16,384 tokens 400 MB. They share
tensors, so each buffer counts once. They grow as they are looked at (a row's log-sum-exp is remembered): what the whole
process takes tells it.
"""

import math
import os
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import count
from threading import RLock
from typing import Any

from transformer.runs.memory import trim
from transformer.safe.limits import MEGABYTE
from ui.store import machine, settings, upload_quota
from ui.store.sizes import Size, size_of

EACH, EACH_BUFFER = 512, 256
"""Bytes that it takes to keep a result at all, however small it is, and to know each of its buffers."""

BESIDES = 450 * MEGABYTE
"""What a server may take besides its results, models and uploads: libraries, sessions, runs, and holes of its heaps."""

BETWEEN_LOOKS, LEAST = 5.0, 4
"""Seconds between two looks at the whole process, and the share of the limit that results keep whatever it takes."""


Name = tuple[int, Hashable]
"""A result: the number of its store, and its key."""


@dataclass
class _Entry:
    store: weakref.ref[Any]
    size: Size


class Budget:
    """Every kept result with its size, the one that was used longest ago first.

    `limit` says how many bytes they may take together. A result that alone takes more is not kept, unless the newest
    always stays. `excess` says by how many bytes the whole process is too large, of whatever it holds: results of so
    many bytes go, down to a quarter of the limit.
    """

    def __init__(
        self, limit: Callable[[], int], newest_stays: bool = False, excess: Callable[[], int] = lambda: 0
    ) -> None:
        self._limit, self._newest_stays, self._excess = limit, newest_stays, excess
        self._looked, self._held = -math.inf, 0
        self._lock = RLock()
        self._entries = OrderedDict[Name, _Entry]()
        self._shares = dict[int, tuple[int, int]]()
        self._numbers, self._gone = count(), deque[int]()

    @property
    def held(self) -> int:
        """Bytes of all kept results."""
        with self._lock:
            self._strike_gone()
            return self._held

    def join(self, store: object) -> int:
        """A number for a store; what it kept is struck when nothing refers to it any more."""
        number = next(self._numbers)
        # A finalizer runs at any moment of any thread: it only leaves a note.
        weakref.finalize(store, self._gone.append, number).atexit = False
        return number

    def count(self, number: int, store: object, key: Hashable, value: object) -> None:
        """Count a new result, and make room for it."""
        name, size, excess = (number, key), _size_kept(key, value), self._too_large()
        with self._lock:
            self._strike_gone()
            self._strike(name)
            self._entries[name] = _Entry(weakref.ref(store), size)
            self._add(size, 1)
            limit = self._limit()
            self._make_room(name, min(limit, max(limit // LEAST, self._held - excess)))
        if excess:
            trim()

    def use(self, number: int, key: Hashable) -> None:
        """A result was used: others go before it."""
        with self._lock:
            if (number, key) in self._entries:
                self._entries.move_to_end((number, key))

    def strike(self, number: int, key: Hashable) -> None:
        """A result is kept no more."""
        with self._lock:
            self._strike((number, key))

    def _too_large(self) -> int:
        """By how many bytes the process is too large; 0 between two looks, since what goes takes time to be gone."""
        now = time.monotonic()
        with self._lock:
            if now - self._looked < BETWEEN_LOOKS:
                return 0
            self._looked = now
        return max(0, self._excess())

    def _make_room(self, newest: Name, limit: int) -> None:
        if self._entries[newest].size.n_bytes > limit and not self._newest_stays:
            self._let_go(newest)
        for name in list(self._entries):
            if self._held <= limit:
                return
            if name != newest:
                self._let_go(name)

    def _let_go(self, name: Name) -> None:
        store = self._entries[name].store()
        if store is None or not store.pinned:
            self._strike(name)
        if store is not None and not store.pinned:
            store.drop(name[1])

    def _strike(self, name: Name) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._add(entry.size, -1)

    def _add(self, size: Size, times: int) -> None:
        """Count a size (1), or no more (-1): a buffer that several results hold counts once."""
        self._held += times * size.rest
        for place, n_bytes in size.buffers.items():
            holders, counted = self._shares.get(place, (0, n_bytes))
            if holders + times:
                self._shares[place] = holders + times, counted
            else:
                del self._shares[place]
            self._held += times * counted if min(holders, holders + times) == 0 else 0

    def _strike_gone(self) -> None:
        """Strike what stores kept that are no more: with a session go its stores."""
        gone = {self._gone.popleft() for _ in range(len(self._gone))}
        for name in [name for name in self._entries if name[0] in gone] if gone else ():
            self._strike(name)


def _size_kept(key: Hashable, value: object) -> Size:
    """What it takes to keep a result."""
    size = size_of((key, value))
    size.rest += EACH + EACH_BUFFER * len(size.buffers)
    return size


def _results_bytes() -> int:
    return settings.n_bytes(os.environ, "HEEDMAP_CACHE_MB")


MODELS = Budget(lambda: settings.n_bytes(os.environ, "HEEDMAP_MODELS_MB"), newest_stays=True)
"""Checkpoints that are ready to run. Results never push one out, and one that is in use stays, whatever its size."""

RESULTS = Budget(
    _results_bytes,
    excess=lambda: machine.resident() - _results_bytes() - MODELS.held - upload_quota.LEDGER.held - BESIDES,
)
"""What is computed from checkpoints."""
