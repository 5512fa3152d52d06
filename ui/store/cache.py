"""What the dashboard computed and keeps: one cache, whose results belong to all sessions or to one.

Who owns a result is decided here, by its key, and nowhere else: a key that holds an upload's `CheckpointRef` (in its
`Revision`, as every key of a checkpoint's results does) belongs to the session, every other key to all. Arguments must
be plain values; results are shared, so they are read-only.

All of them share a budget of bytes (`ui.store.budget`), so one long text pushes out as much as many short ones.

These caches are not Streamlit's: any client may tell Streamlit to empty its caches, which are those of all users.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from ui.store import render_slots, session_resources
from ui.store.budget import RESULTS, Budget
from ui.store.refs import CheckpointRef, Revision
from ui.texts import t

P = ParamSpec("P")
T = TypeVar("T")

SESSION_ENTRIES = 32
"""Results of one kind that a session keeps for itself."""

_MISSING = object()
_COMPUTING: ContextVar[bool] = ContextVar("computing", default=False)


class Store:
    """Results by key; each is computed once, however many threads ask for it at the same time.

    What they take together with those of other stores is bounded by a budget; `entries` bounds their number besides.
    Those of a `pinned` store stay until their number or their session says otherwise.
    """

    def __init__(self, entries: int | None = None, budget: Budget = RESULTS, pinned: bool = False) -> None:
        self.entries, self.pinned = entries, pinned
        self._budget, self._number = budget, budget.join(self)
        self._values = OrderedDict[Hashable, Any]()
        self._working: dict[Hashable, tuple[Lock, int]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result of a key; what `compute` raises is not kept."""
        found = self._find(key)
        if found is not _MISSING:
            return found
        with self._alone(key):
            found = self._find(key)
            if found is _MISSING:
                found = compute()
                self.put(key, found)
            return found

    def find(self, key: Hashable) -> Any | None:
        """The result of a key; None where there is none."""
        found = self._find(key)
        return None if found is _MISSING else found

    def put(self, key: Hashable, value: Any) -> None:
        """Keep this result of a key from now on."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            extra = list(self._values)[: -self.entries] if self.entries else []
        for one in extra:
            self.drop(one)
        self._budget.count(self._number, self, key, value)

    def clear(self) -> None:
        """Forget every result."""
        with self._lock:
            keys = list(self._values)
        for key in keys:
            self.drop(key)

    def drop(self, key: Hashable) -> None:
        """Forget the result of a key."""
        with self._lock:
            self._values.pop(key, None)
        self._budget.strike(self._number, key)

    def _find(self, key: Hashable) -> Any:
        with self._lock:
            if key not in self._values:
                return _MISSING
            self._values.move_to_end(key)
            found = self._values[key]
        self._budget.use(self._number, key)
        return found

    @contextmanager
    def _alone(self, key: Hashable) -> Iterator[None]:
        """One thread at a time for a key, and who waits has no turn; its lock goes with the last thread that does."""
        with self._lock:
            lock, waiting = self._working.get(key, (Lock(), 0))
            self._working[key] = lock, waiting + 1
        try:
            if not lock.acquire(blocking=False):
                render_slots.give_back()
                lock.acquire()
            try:
                yield
            finally:
                lock.release()
        finally:
            with self._lock:
                lock, waiting = self._working.pop(key)
                if waiting > 1:
                    self._working[key] = lock, waiting - 1


class SharedStore(Store):
    """Results for all sessions. It refuses what belongs to one, and no upload can be reached while it computes."""

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result of a key.

        Raises:
            ValueError: the key holds an upload, whose results belong to its session.
            RuntimeError: `compute` asked for an upload.
        """
        if is_private(key):
            raise ValueError(f"{key!r} holds an upload: its results belong to its session, not to all")

        def sealed() -> Any:
            with session_resources.out_of_reach():
                return compute()

        return super().get(key, sealed)


_SHARED: dict[str, SharedStore] = {}
"""What all sessions share, by kind."""

_MAKING = Lock()


def is_private(key: Hashable) -> bool:
    """Whether a key holds, however deep, a checkpoint that belongs to one session."""
    if isinstance(key, Revision):
        return key.ref.private
    if isinstance(key, CheckpointRef):
        return key.private
    return isinstance(key, tuple | frozenset) and any(map(is_private, key))


def cached_result(kind: str, key: Hashable, compute: Callable[[], T], budget: Budget = RESULTS) -> T:
    """A result of some kind: the session's where the key holds an upload, else that of all sessions."""
    if is_private(key):
        return in_session(kind, key, compute, budget=budget)
    found: T = shared_store(kind, budget).get(key, compute)
    return found


def shared_store(kind: str, budget: Budget = RESULTS) -> SharedStore:
    """The results of a kind that all sessions share."""
    with _MAKING:
        return _SHARED.get(kind) or _SHARED.setdefault(kind, SharedStore(budget=budget))


def store_of(kind: str, key: Hashable) -> Store:
    """Where a result of this key is kept, to look whether there is one, or to put one that was computed in slices."""
    return session_store(kind) if is_private(key) else shared_store(kind)


def in_session(
    kind: str,
    key: Hashable,
    compute: Callable[[], T],
    entries: int = SESSION_ENTRIES,
    budget: Budget = RESULTS,
    pinned: bool = False,
) -> T:
    """A result that only the user's session keeps, whatever its key holds; the last few of a kind are kept.

    What is computed for one session may take long, as the reading of an upload does. A `pinned` one is work on its way:
    it counts, and no other result pushes it out.
    """

    def without_turn() -> T:
        render_slots.give_back()
        return compute()

    found: T = session_store(kind, entries, budget, pinned).get(key, without_turn)
    return found


def session_store(kind: str, entries: int = SESSION_ENTRIES, budget: Budget = RESULTS, pinned: bool = False) -> Store:
    """The session's own results of a kind: to look whether there is one, or to put a newer one."""
    results = session_resources.mine().results
    if kind not in results:
        results[kind] = Store(entries, budget, pinned)
    found: Store = results[kind]
    return found


def cached(*, spinner: str = "", budget: Budget = RESULTS) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Remember results of a function by its arguments, of which names that start with `_` are no part of the key.

    `spinner` is the key of the text that is shown while it computes, unless the work is part of another that shows one.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kind = f"{function.__module__}.{function.__qualname__}"
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        left_out = {position for position, name in enumerate(names) if name.startswith("_")}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            named = tuple(sorted((name, value) for name, value in kwargs.items() if not name.startswith("_")))
            key = (*(value for position, value in enumerate(args) if position not in left_out), *named)
            return cached_result(kind, key, lambda: _spinning(spinner, lambda: function(*args, **kwargs)), budget)

        return call

    return decorate


def clear() -> None:
    """Forget what all sessions share."""
    for store in _SHARED.values():
        store.clear()


def shared() -> dict[str, SharedStore]:
    """Every store that all sessions share, by kind."""
    return dict(_SHARED)


def _spinning(text_key: str, compute: Callable[[], T]) -> T:
    if _COMPUTING.get():
        return compute()
    token = _COMPUTING.set(bool(text_key))
    try:
        if not text_key:
            return compute()
        render_slots.give_back()  # it takes long enough to say so
        with st.spinner(t(text_key)):
            return compute()
    finally:
        _COMPUTING.reset(token)
