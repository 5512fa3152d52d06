"""How many forward passes run at once, so that many sessions share the memory of two, and each comes to its turn."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Lock, local

import torch

from transformer.attention.interventions.edits import active, refuse_unknown_sites
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError

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
        """Wait for a slot; whoever is interrupted (Ctrl+C in a notebook) leaves the queue, or lets go of what came."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            given = Event()
            self._waiting.append(given)
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

    def give_back(self) -> None:
        """Let a slot go: to whoever waits longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def let_others(self) -> None:
        """Give the slot to whoever waits longest, and wait for the next one; nothing happens where nobody waits."""
        if self._waiting:
            self.give_back()
            self.take()


GRACE = 0.5
"""Seconds of a processor after which work is long: from then on it stands back for whoever only wants to look."""

PATIENCE = 0.25
"""Seconds that long work stands back at most, each time: it is slow while many look, and never stops."""

SHARE = 4
"""Nor does it stand back for more than so many times as long as it went on since: small steps wait little."""

TENURE = 0.05
"""Seconds for which one long work goes on before it is the next one's turn, however small its steps are."""

GLANCE = 0.005
"""Seconds from one look at whether somebody draws to the next."""

_forward = Slots(AT_ONCE)
_long = Slots(1)
"""Where others look, long work goes on one at a time: each of them would slow down whoever looks once more."""

_busy: list[Callable[[], bool]] = []
"""Who says that somebody only wants to look at what is there; nobody in a notebook."""


class _Mine(local):
    """What this thread does: whether it has a slot, and its processor's time then; `long` for work that is known to be.

    `first` among long work is whoever has its slot, has worked `tenure` seconds in it, and went on when it `began`.
    """

    has_slot, long, first = False, False, False
    since, began, tenure = 0.0, float("-inf"), 0.0


_mine = _Mine()


@contextmanager
def forward_slot() -> Iterator[None]:
    """Wait for one of the slots that bound how many forward passes run at once; no gradients are kept inside."""
    if _mine.has_slot:  # a pass within a pass is part of it: with a slot of its own, two such would wait for each other
        yield
        return
    try:
        if _mine.long:
            _come_first()
        with _forward.slot(), torch.inference_mode():
            _mine.has_slot, _mine.since = True, time.thread_time()
            try:
                yield
            finally:
                _mine.has_slot = False
    finally:
        _let_next()


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
    if not _mine.has_slot:
        return
    if not _mine.long and time.thread_time() - _mine.since < GRACE:
        _forward.let_others()
        return
    _forward.give_back()
    try:
        _come_first()
    finally:
        _forward.take()


def _come_first() -> None:
    """Wait until no other long work goes on, and then, not for long, until nobody wants to look.

    Whoever has a forward slot must not wait here: the other long work may be waiting for one.
    """
    if not _busy:
        return
    worked = time.monotonic() - _mine.began
    _mine.tenure += worked
    if not _mine.first or _mine.tenure > TENURE:
        _let_next()
        _long.take()
        _mine.first, _mine.tenure = True, 0.0
    until = time.monotonic() + min(PATIENCE, SHARE * worked)
    while any(busy() for busy in _busy) and time.monotonic() < until:
        time.sleep(GLANCE)
    _mine.began = time.monotonic()


def _let_next() -> None:
    """Let the next long work go on."""
    if _mine.first:
        _mine.first = False
        _long.give_back()


def letting_others(progress: Callable[[float], None] | None) -> Callable[[float], None]:
    """A `progress` that lets others go first, too, whenever it is told."""

    def reported(done: float) -> None:
        let_others()
        if progress is not None:
            progress(done)

    return reported


@contextmanager
def run_of(checkpoint: Checkpoint) -> Iterator[None]:
    """One of the forward slots, for a run of this checkpoint that the caller's interventions may change.

    What is made inside without a device of its own is made where the model is.

    Raises:
        InputError: the checkpoint has no attention that one of them names.
        CheckpointError: its attention cannot be changed.
    """
    asked = active()
    if asked is not None:
        if not checkpoint.sites:
            raise CheckpointError("nothing_to_change", name=checkpoint.name)
        refuse_unknown_sites(asked.sites, checkpoint.sites)
    with forward_slot(), nullcontext() if checkpoint.device.type == "cpu" else checkpoint.device:
        yield
