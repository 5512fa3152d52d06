"""What the dashboard computed and keeps: one cache, whose results belong to all sessions or to one.

Who owns a result is decided here, by its key, and nowhere else: a key that holds an upload's `CheckpointRef` (in its
`Revision`, as every key of a checkpoint's results does) belongs to the session, every other key to all. Arguments must
be plain values; results are shared, so they are read-only.

All of them share a budget of bytes, and what was used longest ago goes first. Results are measured, not counted: the
record of a sentence takes 0.3 MB, one of 16,384 tokens 400 MB. They share tensors, so each buffer counts once. They
grow as they are looked at (a row's log-sum-exp is remembered): what the whole process takes tells it.

These caches are not Streamlit's: any client may tell Streamlit to empty its caches, which are those of all users.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from functools import wraps
from threading import Lock, RLock
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary, ref

import streamlit as st

from heedmap.runs.memory import trim
from heedmap.safe.limits import MEGABYTE
from ui.store import limits, render_slots, session_resources, upload_guard
from ui.store.refs import CheckpointRef, Revision
from ui.store.sizes import Size, size_of
from ui.texts import t

P = ParamSpec("P")
T = TypeVar("T")

EACH, EACH_BUFFER = 512, 256
"""Bytes that it takes to keep a result at all, however small it is, and to know each of its buffers."""

BESIDES = 450 * MEGABYTE
"""What a server may take besides its results, models and uploads: libraries, sessions, runs, and holes of its heaps."""

BETWEEN_LOOKS, LEAST = 5.0, 4
"""Seconds between two looks at the whole process, and the share of the limit that results keep whatever it takes."""

SESSION_ENTRIES = 32
"""Results of one kind that a session keeps for itself."""

_MISSING = object()
_COMPUTING: ContextVar[bool] = ContextVar("computing", default=False)


class ByteBudget:
    """Every kept result with its size, the one that was used longest ago first.

    `limit` says how many bytes they may take together. A result that alone takes more is not kept, unless the newest
    always stays. `excess` says by how many bytes the whole process is too large, of whatever it holds: results of so
    many bytes go, down to a quarter of the limit.
    """

    def __init__(
        self, limit: Callable[[], int], newest_stays: bool = False, excess: Callable[[], int] = lambda: 0
    ) -> None:
        self._limit, self._newest_stays, self._excess = limit, newest_stays, excess
        self._looked, self._n_bytes = -math.inf, 0
        self._lock = RLock()
        self._sizes = OrderedDict[tuple[ref["Store"], Hashable], Size]()
        self._shares = dict[int, tuple[int, int]]()

    @property
    def n_bytes(self) -> int:
        """Bytes of all kept results."""
        with self._lock:
            self._strike_gone()
            return self._n_bytes

    def count(self, store: "Store", key: Hashable, value: object) -> None:
        """Count a new result, and make room for it."""
        size, excess, newest = size_of((key, value)), self._too_large(), (ref(store), key)
        size.rest += EACH + EACH_BUFFER * len(size.buffers)
        with self._lock:
            self._strike_gone()
            self.strike(store, key)
            self._sizes[newest] = size
            self._add(size, 1)
            limit = self._limit()
            limit = min(limit, max(limit // LEAST, self._n_bytes - excess))
            going = [name for name in self._sizes if name != newest]
            if size.n_bytes > limit and not self._newest_stays:
                going.insert(0, newest)
            for name in going:
                if self._n_bytes <= limit:
                    break
                keeper = name[0]()
                if keeper is not None and not keeper.pinned:
                    keeper.drop(name[1])
        if excess:
            trim()

    def use(self, store: "Store", key: Hashable) -> None:
        """A result was used: others go before it."""
        with self._lock:
            if (ref(store), key) in self._sizes:
                self._sizes.move_to_end((ref(store), key))

    def strike(self, store: "Store", key: Hashable) -> None:
        """A result is kept no more."""
        with self._lock:
            size = self._sizes.pop((ref(store), key), None)
            if size is not None:
                self._add(size, -1)

    def _too_large(self) -> int:
        """By how many bytes the process is too large; 0 between two looks, since what goes takes time to be gone."""
        now = time.monotonic()
        with self._lock:
            if now - self._looked < BETWEEN_LOOKS:
                return 0
            self._looked = now
        return max(0, self._excess())

    def _add(self, size: Size, times: int) -> None:
        """Count a size (1), or no more (-1): a buffer that several results hold counts once."""
        self._n_bytes += times * size.rest
        for place, n_bytes in size.buffers.items():
            holders, counted = self._shares.get(place, (0, n_bytes))
            if holders + times:
                self._shares[place] = holders + times, counted
            else:
                del self._shares[place]
            self._n_bytes += times * counted if min(holders, holders + times) == 0 else 0

    def _strike_gone(self) -> None:
        """Strike what was kept by those that are no more: with a session go its results."""
        for name in [name for name in self._sizes if name[0]() is None]:
            self._add(self._sizes.pop(name), -1)


MODELS = ByteBudget(lambda: limits.n_bytes("HEEDMAP_MODELS_MB"), newest_stays=True)
"""Checkpoints that are ready to run. Results never push one out, and one that is in use stays, whatever its size."""


def _excess() -> int:
    counted = limits.n_bytes("HEEDMAP_CACHE_MB") + MODELS.n_bytes + upload_guard.LEDGER.n_bytes
    return limits.resident() - counted - BESIDES


RESULTS = ByteBudget(lambda: limits.n_bytes("HEEDMAP_CACHE_MB"), excess=_excess)
"""What is computed from checkpoints."""


class Store:
    """Results by key; each is computed once, however many threads ask for it at the same time.

    What they take together with those of other stores is bounded by a budget; `entries` bounds their number besides.
    Those of a `pinned` store are work on its way: they count, and stay until their number or their session says
    otherwise. One that is `shared` by all sessions refuses what belongs to one, and no upload can be reached while it
    computes; what is computed for one session may take long, so it is done without a turn.
    """

    def __init__(
        self, entries: int | None = None, budget: ByteBudget = RESULTS, pinned: bool = False, shared: bool = False
    ) -> None:
        self.entries, self.pinned, self._budget, self._shared = entries, pinned, budget, shared
        self.values = OrderedDict[Hashable, Any]()
        self._working = WeakValueDictionary[Hashable, Any]()
        self._lock = Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self.values

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result of a key; what `compute` raises is not kept. Who waits for another thread has no turn.

        Raises:
            ValueError: all sessions share the results, and the key holds an upload.
            RuntimeError: all sessions share the results, and `compute` asked for an upload.
        """
        if self._shared and is_private(key):
            raise ValueError(f"{key!r} holds an upload: its results belong to its session, not to all")
        found = self.find(key, _MISSING)
        if found is not _MISSING:
            return found
        with self._lock:
            alone = self._working.setdefault(key, Lock())  # it goes with the last thread that waits for this key
        if not alone.acquire(blocking=False):
            render_slots.give_back()
            alone.acquire()
        try:
            found = self.find(key, _MISSING)
            if found is _MISSING:
                found = self._computed(compute)
                self.put(key, found)
            return found
        finally:
            alone.release()

    def find(self, key: Hashable, otherwise: Any = None) -> Any:
        """The result of a key, if there is one."""
        with self._lock:
            if key not in self.values:
                return otherwise
            self.values.move_to_end(key)
            found = self.values[key]
        self._budget.use(self, key)
        return found

    def put(self, key: Hashable, value: Any) -> None:
        """Keep this result of a key from now on."""
        with self._lock:
            self.values[key] = value
            self.values.move_to_end(key)
            extra = list(self.values)[: -self.entries] if self.entries else []
        for one in extra:
            self.drop(one)
        self._budget.count(self, key, value)

    def drop(self, key: Hashable) -> None:
        """Forget the result of a key."""
        with self._lock:
            self.values.pop(key, None)
        self._budget.strike(self, key)

    def _computed(self, compute: Callable[[], T]) -> T:
        if self._shared:
            with session_resources.out_of_reach():
                return compute()
        render_slots.give_back()
        return compute()


SHARED: dict[str, Store] = {}
"""What all sessions share, by kind."""


def is_private(key: Hashable) -> bool:
    """Whether a key holds, however deep, a checkpoint that belongs to one session."""
    if isinstance(key, Revision):
        return key.ref.private
    if isinstance(key, CheckpointRef):
        return key.private
    return isinstance(key, tuple | frozenset) and any(map(is_private, key))


def cached_result(
    kind: str, key: Hashable, compute: Callable[[], T], budget: ByteBudget = RESULTS, entries: int = SESSION_ENTRIES
) -> T:
    """A result of some kind: the session's (the last few) where the key holds an upload, else that of all sessions."""
    found: T = store_of(kind, key, budget, entries).get(key, compute)
    return found


def store_of(kind: str, key: Hashable, budget: ByteBudget = RESULTS, entries: int = SESSION_ENTRIES) -> Store:
    """Where a result of this key is kept, to look whether there is one, or to put one that was computed in slices."""
    if is_private(key):
        return session_store(kind, entries, budget)
    return SHARED.setdefault(kind, Store(budget=budget, shared=True))


def in_session(
    kind: str,
    key: Hashable,
    compute: Callable[[], T],
    entries: int = SESSION_ENTRIES,
    pinned: bool = False,
) -> T:
    """A result that only the user's session keeps, whatever its key holds; the last few of a kind are kept."""
    found: T = session_store(kind, entries, pinned=pinned).get(key, compute)
    return found


def session_store(
    kind: str, entries: int = SESSION_ENTRIES, budget: ByteBudget = RESULTS, pinned: bool = False
) -> Store:
    """The session's own results of a kind: to look whether there is one, or to put a newer one."""
    found: Store = session_resources.mine().results.setdefault(kind, Store(entries, budget, pinned))
    return found


def cached(
    *, spinner: str = "", budget: ByteBudget = RESULTS, entries: int = SESSION_ENTRIES
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Remember results of a function by its arguments; a session keeps the last `entries` of its uploads.

    `spinner` is the key of the text that is shown while it computes, unless the work is part of another that shows one.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kind = f"{function.__module__}.{function.__qualname__}"

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            def compute() -> T:
                if not spinner or _COMPUTING.get():
                    return function(*args, **kwargs)
                token = _COMPUTING.set(True)
                render_slots.give_back()  # it takes long enough to say so
                try:
                    with st.spinner(t(spinner)):
                        return function(*args, **kwargs)
                finally:
                    _COMPUTING.reset(token)

            return cached_result(kind, (*args, *sorted(kwargs.items())), compute, budget, entries)

        return call

    return decorate


def clear() -> None:
    """Forget what all sessions share."""
    for store in SHARED.values():
        for key in list(store.values):
            store.drop(key)
