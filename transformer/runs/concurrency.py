"""How many forward passes run at once, so that many sessions share the memory of two, and each comes to its turn."""

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


_forward = Slots(AT_ONCE)
_mine = local()
"""Whether this thread has a slot."""


@contextmanager
def forward_slot() -> Iterator[None]:
    """Wait for one of the slots that bound how many forward passes run at once; no gradients are kept inside."""
    with _forward.slot(), torch.inference_mode():
        _mine.held = True
        try:
            yield
        finally:
            _mine.held = False


def let_others() -> None:
    """Between two passes of long work: let others do one of theirs first, where somebody waits for a slot.

    So a translation of 256 tokens delays a short one by a step and not by seconds. What the work holds by then stays in
    memory. Nothing happens outside of `forward_slot`.
    """
    if getattr(_mine, "held", False):
        _forward.let_others()


def letting_others(progress: Callable[[float], None] | None) -> Callable[[float], None]:
    """A `progress` that lets others go first, too, whenever it is told."""

    def told(done: float) -> None:
        let_others()
        if progress is not None:
            progress(done)

    return told
