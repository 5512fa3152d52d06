"""Who goes on now: a few forward passes at once, and a few turns, so that each session comes to its own.

Turns are for whoever holds the interpreter: a server's runs that draw (`ui.store.render_slots`), and long work, a step
at a time. A forward slot is waited for within a turn or without one, and a turn never within a forward slot: no two
wait for each other.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Lock, local

import torch

from ..attention.interventions.edits import active, refuse_unknown_sites
from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError

AT_ONCE = 2
"""At most so many forward passes at once (many sessions share the memory of two), and so many turns: one, and one more
while that one waits for the network or a lock."""

LOOK, LONG = False, True
"""What a slot is wanted for: for what somebody waits to look at, or for a step of long work."""

EACH_LONG = 5
"""Where both wait, every so many slots one is for long work: it is slow while many look, and never stops."""

GRACE = 0.2
"""Seconds of a processor after which work queues again, as long work."""


class Slots:
    """A few slots, each kind of work in the order in which it asked. A thread has one at most.

    A slot that is let go goes to whoever looks and waits longest; the one after four such to long work, if it waits.
    Of all slots at most `most_long` are for long work.
    """

    def __init__(self, count: int) -> None:
        self.most_long = count
        self._lock, self._mine = Lock(), local()
        self._free, self._n_long, self._passed = count, 0, 0
        self._waiting: dict[bool, dict[Event, float]] = {LOOK: {}, LONG: {}}

    @property
    def mine(self) -> bool | None:
        """What this thread's slot is for; None while it has none."""
        return getattr(self._mine, "kind", None)

    @contextmanager
    def slot(self, kind: bool = LOOK) -> Iterator[None]:
        """Have a slot of this kind until the block ends; then again what this thread had before."""
        before = self.mine
        self.have(kind)
        try:
            yield
        finally:
            self.have(before)

    def have(self, kind: bool | None) -> None:
        """Let this thread's slot go, if it has one, and wait for one of a kind; for none where that is None.

        Whoever is interrupted (Ctrl+C in a notebook) leaves the queue, or lets go of what came, and has none.
        """
        given = Event()
        with self._lock:
            self._let_go(self.mine)
            self._mine.kind = None
            if kind is not None:
                self._waiting[kind][given] = time.monotonic()
            self._hand_out()
        if kind is None:
            return
        try:
            given.wait()
        except BaseException:
            with self._lock:
                if self._waiting[kind].pop(given, None) is None:
                    self._let_go(kind)
                    self._hand_out()
            raise
        self._mine.kind = kind

    def let_others(self) -> None:
        """Give this thread's slot to whoever comes first, and wait for the next; nothing happens where nobody waits."""
        if any(self._waiting.values()):
            self.have(self.mine)

    def waited(self, now: float) -> float:
        """Seconds at a moment (of `time.monotonic`) for which the first who looks has waited; 0 where nobody waits."""
        with self._lock:
            return now - next(iter(self._waiting[LOOK].values()), now)

    def _let_go(self, kind: bool | None) -> None:
        if kind is not None:
            self._free += 1
        if kind is LONG:
            self._n_long -= 1
            self._passed = 0

    def _hand_out(self) -> None:
        """Give the free slots to those who come first."""
        look, long = self._waiting[LOOK], self._waiting[LONG]
        while self._free:
            may = bool(long) and self._n_long < self.most_long
            kind = may and (not look or self._passed >= EACH_LONG - 1)
            if not (kind or look):
                return
            self._passed += 1
            self._n_long += kind
            self._free -= 1
            first = next(iter(self._waiting[kind]))
            del self._waiting[kind][first]
            first.set()


turns = Slots(AT_ONCE)
"""Whose turn it is to draw, or to do a step of long work."""

_forward = Slots(AT_ONCE)


_began = local()
"""`at`: the time of this thread's processor when it came to its forward slot, or last to its turn in it."""


@contextmanager
def forward_slot() -> Iterator[None]:
    """Wait for one of the slots that bound how many forward passes run at once; no gradients are kept inside.

    Within a turn of long work each is a step.
    """
    if _forward.mine is not None:  # a pass within a pass is part of it: two such would wait for each other
        yield
        return
    turn = turns.mine
    if turn is LONG:
        turns.let_others()
    with _forward.slot(), torch.inference_mode():
        _began.at = time.thread_time()
        try:
            yield
        finally:
            if turns.mine is not turn:  # it became long work
                turns.have(None)


def let_others() -> None:
    """Between two steps of a pass: let others go first, where somebody waits for a slot.

    So a translation of 256 tokens delays a short one by a step and not by seconds. After `GRACE` it needs turns of long
    work; one to draw is gone by then, as what takes long gives it back. What the work holds stays in memory. Nothing
    happens outside of `forward_slot`.
    """
    if _forward.mine is None:
        return
    if time.thread_time() - _began.at < GRACE:
        _forward.let_others()
        return
    _forward.have(None)
    try:
        turns.have(LONG)
    finally:
        _forward.have(LOOK)
    _began.at = time.thread_time()


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
