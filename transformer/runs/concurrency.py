"""How many forward passes run at once, so that many sessions share the memory of two, and each comes to its turn."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, local

import torch

AT_ONCE = 2
"""At most so many forward passes at once."""


class Slots:
    """A few slots, given in the order in which they were asked for.

    A slot that is let go goes to whoever waits longest, and not to whoever is there first: work that takes one slot
    after another (a file, a scan) would take each of them again before anybody who waits has woken up.
    """

    def __init__(self, count: int) -> None:
        self._lock, self._free = Lock(), count
        self._waiting = deque[Event]()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for a slot, and keep it until the block ends."""
        self.take()
        try:
            yield
        finally:
            self.give_back()

    def take(self) -> None:
        """Wait for a slot."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            given = self._queue()
        self._wait(given)

    def give_back(self) -> None:
        """Let a slot go."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def let_others(self) -> None:
        """Give the slot to whoever waits longest, and wait for the next one; nothing happens where nobody waits."""
        with self._lock:
            if not self._waiting:
                return
            given = self._queue()
            self._waiting.popleft().set()
        self._wait(given)

    def _queue(self) -> Event:
        given = Event()
        self._waiting.append(given)
        return given

    def _wait(self, given: Event) -> None:
        """Wait; whoever is interrupted (Ctrl+C in a notebook) leaves the queue, or lets go of what came meanwhile."""
        try:
            given.wait()
        except BaseException:
            with self._lock:
                came = given not in self._waiting
                if not came:
                    self._waiting.remove(given)
            if came:
                self.give_back()
            raise


GRACE = 0.5
"""Seconds after which work is long: from then on it stands back for whoever only wants to look."""

PATIENCE = 0.25
"""Seconds that long work stands back at most, each time: it is slow while many look, and never stops."""

_forward = Slots(AT_ONCE)
_busy: list[Callable[[], bool]] = []
"""Who says that somebody only wants to look at what is there; nobody in a notebook."""


class _Mine(local):
    """What this thread does: whether it has a slot, and since when; `long` for work that is known to be."""

    held, long, since = False, False, 0.0


_mine = _Mine()


@contextmanager
def forward_slot() -> Iterator[None]:
    """Wait for one of the slots that bound how many forward passes run at once; no gradients are kept inside."""
    if _mine.long:
        _stand_back()
    with _forward.slot(), torch.inference_mode():
        _mine.held, _mine.since = True, time.monotonic()
        try:
            yield
        finally:
            _mine.held = False


@contextmanager
def long_work() -> Iterator[None]:
    """Inside, this thread's forward passes stand back: parts of a file, of a scan, of a sweep."""
    before, _mine.long = _mine.long, True
    try:
        yield
    finally:
        _mine.long = before


def stand_back_for(busy: Callable[[], bool]) -> None:
    """Let long work stand back while `busy` says so: a server, where others wait for pages that are computed."""
    _busy[:] = [busy]


def let_others() -> None:
    """Between two passes of long work: let others do one of theirs first, where somebody waits for a slot.

    So a translation of 256 tokens delays a short one by a step and not by seconds. What the work holds by then stays in
    memory. Nothing happens outside of `forward_slot`.
    """
    if not _mine.held:
        return
    if time.monotonic() - _mine.since < GRACE:
        _forward.let_others()
        return
    _forward.give_back()
    try:
        _stand_back()
    finally:
        _forward.take()


def _stand_back() -> None:
    """Wait, not for long, until nobody wants to look."""
    until = time.monotonic() + PATIENCE
    while any(busy() for busy in _busy) and time.monotonic() < until:
        time.sleep(PATIENCE / 25)


def letting_others(progress: Callable[[float], None] | None) -> Callable[[float], None]:
    """A `progress` that lets others go first, too, whenever it is told."""

    def told(done: float) -> None:
        let_others()
        if progress is not None:
            progress(done)

    return told
