"""How much memory kept results may take, all kinds and all sessions together; what was used longest ago goes first.

Results are measured, not counted: the record of a sentence takes 0.3 MB, one of 16,384 tokens 400 MB. They share
tensors, so each buffer counts once. They grow as they are looked at (a row's log-sum-exp is remembered), so those that
were used are measured again when the next one comes: after one use, two, four and so on, since each one adds less.
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
from typing import Protocol

from transformer.checkpoint.safe.limits import MEGABYTE
from ui.store import machine, settings, upload_quota
from ui.store.sizes import Size, size_of

ANEW = 8
"""Results that are measured again at a time."""

EACH, EACH_BUFFER = 512, 256
"""Bytes that it takes to keep a result at all, however small it is, and to know each of its buffers."""


BESIDES = 450 * MEGABYTE
"""What a server may take besides its results, models and uploads: libraries, sessions, runs, and holes of its heaps."""

BETWEEN_LOOKS, LEAST = 5.0, 4
"""Seconds between two looks at the whole process, and the share of the limit that results keep whatever it takes."""


class Keeper(Protocol):
    """What keeps results: a store."""

    pinned: bool
    """Whether its results count, and stay: work on its way, which would have to begin again."""

    def peek(self, key: Hashable) -> object:
        """The result of a key, without using it; None where there is none."""

    def drop(self, key: Hashable) -> None:
        """Keep the result of a key no longer."""


Name = tuple[int, Hashable]
"""A result: the number of its store, and its key."""


@dataclass
class _Entry:
    keeper: weakref.ref[Keeper]
    size: Size
    pinned: bool
    uses: int = 0
    measured_after: int = 1
    """Uses after which it is measured again."""


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
        self._looked = -math.inf
        self._lock = RLock()
        self._entries = OrderedDict[Name, _Entry]()
        self._used = OrderedDict[Name, None]()
        self._shares = dict[int, tuple[int, int]]()
        self._held = 0
        self._numbers = count()
        self._gone = deque[int]()

    @property
    def held(self) -> int:
        """Bytes of all kept results."""
        with self._lock:
            self._strike_gone()
            return self._held

    def join(self, keeper: Keeper) -> int:
        """A number for a store; what it kept is struck when nothing refers to it any more."""
        number = next(self._numbers)
        # A finalizer runs at any moment of any thread: it only leaves a note.
        weakref.finalize(keeper, self._gone.append, number).atexit = False
        return number

    def count(self, number: int, keeper: Keeper, key: Hashable, value: object) -> None:
        """Count a new result, and make room for it."""
        size = _size_kept(key, value)
        measured = self._measured_anew()
        excess = self._looked_at_process()
        with self._lock:
            self._strike_gone()
            for name, new in measured:
                if name in self._entries:
                    self._remove(self._entries[name].size)
                    self._entries[name].size = new
                    self._put(new)
            name = number, key
            self._strike(name)
            self._entries[name] = _Entry(weakref.ref(keeper), size, keeper.pinned)
            self._put(size)
            limit = self._limit()
            self._make_room(name, min(limit, max(limit // LEAST, self._held - excess)))
        if excess:
            machine.trim()

    def use(self, number: int, key: Hashable) -> None:
        """A result was used."""
        with self._lock:
            name = number, key
            if name in self._entries:
                self._entries.move_to_end(name)
                entry = self._entries[name]
                entry.uses += 1
                if entry.uses >= entry.measured_after:
                    entry.measured_after = 2 * entry.uses
                    self._used[name] = None

    def strike(self, number: int, key: Hashable) -> None:
        """A result is kept no more."""
        with self._lock:
            self._strike((number, key))

    def _looked_at_process(self) -> int:
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
        entry = self._entries[name]
        if entry.pinned:
            return
        self._strike(name)
        keeper = entry.keeper()
        if keeper is not None:
            keeper.drop(name[1])

    def _measured_anew(self) -> list[tuple[Name, Size]]:
        """New sizes of results that were used since they were measured, those first whose time came last."""
        with self._lock:
            names = [self._used.popitem()[0] for _ in range(min(ANEW, len(self._used)))]
            found = [(name, self._entries[name].keeper()) for name in names if name in self._entries]
        measured = []
        for name, keeper in found:
            value = None if keeper is None else keeper.peek(name[1])
            if value is not None:
                measured.append((name, _size_kept(name[1], value)))
        return measured

    def _strike(self, name: Name) -> None:
        self._used.pop(name, None)
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._remove(entry.size)

    def _put(self, size: Size) -> None:
        self._held += size.rest
        for place, n_bytes in size.buffers.items():
            holders, counted = self._shares.get(place, (0, n_bytes))
            self._held += 0 if holders else counted
            self._shares[place] = holders + 1, counted

    def _remove(self, size: Size) -> None:
        self._held -= size.rest
        for place in size.buffers:
            holders, counted = self._shares.pop(place)
            if holders > 1:
                self._shares[place] = holders - 1, counted
            else:
                self._held -= counted

    def _strike_gone(self) -> None:
        """Strike what stores kept that are no more: with a session go its stores."""
        gone = set[int]()
        while self._gone:
            gone.add(self._gone.popleft())
        if gone:
            for name in [name for name in self._entries if name[0] in gone]:
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
