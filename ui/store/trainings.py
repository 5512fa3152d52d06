"""Small trainings of all sessions: one at a time, in a process of its own, each run once for whoever looks at it.

A page says again and again which run it shows and up to which update (`Trainings.look`). A run goes on while somebody
wants more of it, and stops within a second once nobody does. What is trained is a function of the settings, so nothing
here has to last: the address makes it again.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from threading import Condition, Thread, current_thread
from typing import NamedTuple

from transformer.distribution import CHECKPOINTS
from transformer.safe.limits import MEGABYTE
from transformer.training.child import Child
from transformer.training.snapshots import SCHEDULE, Snapshot, checkpoint, unpacked
from transformer.training.tasks import Settings
from ui.store import log, render_slots, uploads
from ui.store.cache import cached, session_store
from ui.store.uploads import take

SESSION_SECONDS = 60.0
"""Processor seconds of training that a session may ask for."""

CHUNK = 10
"""Updates between two looks at whether to go on: a tenth to half a second."""

AWAY, STOPPING = 10.0, 0.7
"""Seconds after which a reader who does not look has left, and which updates under way are given when nobody waits."""

GLANCE, PATIENCE = 0.1, 0.5
"""Seconds from one look to the next, and that a run stands back at most while others draw."""

IDLE = 60.0
"""Seconds without work after which the process ends."""

MOST_BYTES = 64 * MEGABYTE
"""Snapshots of all runs that are kept."""

RECORDINGS = CHECKPOINTS / "learning"

OPENED = "opened-trainings"


@dataclass
class Purse:
    """What a session has spent, in processor seconds."""

    seconds: float = 0.0

    @property
    def empty(self) -> bool:
        """Whether it may ask for nothing more."""
        return self.seconds >= SESSION_SECONDS


@dataclass
class _Reader:
    """Who looks at a run: up to which update, what pays for it, and when last."""

    to: int
    purse: Purse
    seen: float


@dataclass(eq=False)
class _Run:
    """One run: its snapshots so far, and who looks at it by session."""

    settings: Settings
    update: int = -1
    snapshots: list[Snapshot] = field(default_factory=list)
    readers: dict[str, _Reader] = field(default_factory=dict)
    failed: bool = False

    def payers(self) -> Iterator[_Reader]:
        """Who wants more of it, is here, and may ask for it; the first one pays."""
        now = time.monotonic()
        for one in list(self.readers.values()):
            if one.to > self.update and now - one.seen < AWAY and not one.purse.empty and not self.failed:
                yield one

    @property
    def is_wanted(self) -> bool:
        """Whether anybody does."""
        return next(self.payers(), None) is not None


class Look(NamedTuple):
    """What a page shows of a run: its snapshots so far, the runs before it (None: it is not to go on), why it stopped.

    `ahead` is 0 while it is trained.
    """

    snapshots: tuple[Snapshot, ...]
    ahead: int | None = None
    spent: bool = False
    failed: bool = False


class Trainings:
    """The runs of a server by their settings, and the thread that has them trained."""

    def __init__(self) -> None:
        self._runs: dict[Settings, _Run] = {}
        self._queue: list[_Run] = []
        self._changed = Condition()
        self._thread: Thread | None = None
        self.chunks = 0
        """Answers of the process so far."""

    def look(self, settings: Settings, session: str, to: int, purse: Purse) -> Look:
        """What is known of a run for a session that wants it up to update `to` (-1: nothing)."""
        with self._changed:
            for other in self._runs.values():
                if other.settings != settings:
                    other.readers.pop(session, None)
            run = self._runs.setdefault(settings, _Run(settings))
            known = run.readers.get(session)
            run.failed = run.failed and known is not None and known.to == to
            if known is None:
                run.readers[session] = _Reader(to, purse, time.monotonic())
            else:
                known.to, known.seen = to, time.monotonic()
            if run.is_wanted and run not in self._queue:
                self._queue.append(run)
                self._changed.notify_all()
                if self._thread is None:
                    self._thread = Thread(target=self._work, name="trainings", daemon=True)
                    self._thread.start()
            self._make_room(run)
            shown = tuple(one for one in run.snapshots if one.measures.update <= to)
            left = run.is_wanted and to > run.update
            ahead = self._queue.index(run) if left and run in self._queue else None
            return Look(shown, ahead, purse.empty and to > run.update, run.failed)

    def _make_room(self, run: _Run) -> None:
        """Forget who has left, and the runs that were begun longest ago and that nobody looks at."""
        held = sum(one.n_bytes for kept in self._runs.values() for one in kept.snapshots)
        now = time.monotonic()
        for settings, kept in list(self._runs.items()):
            kept.readers = {name: one for name, one in kept.readers.items() if now - one.seen < AWAY}
            if kept is not run and not kept.readers and (held > MOST_BYTES or not kept.snapshots):
                held -= sum(one.n_bytes for one in kept.snapshots)
                del self._runs[settings]

    def _work(self) -> None:
        child = Child()
        try:
            while (run := self._next()) is not None:
                self._go_on(run, child)
        finally:
            child.end()
            with self._changed:
                self._thread = None if self._thread is current_thread() else self._thread

    def _next(self) -> _Run | None:
        """The run that is trained now; None when there was none for a while."""
        with self._changed:
            until = time.monotonic() + IDLE
            while True:
                self._queue = [one for one in self._queue if one.is_wanted]
                if self._queue:
                    return self._queue[0]
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    self._thread = None  # under the lock: the next look starts another
                    return None

    def _go_on(self, run: _Run, child: Child) -> None:
        """Have a few updates done, if they are wanted for as long as they take."""
        due = next(update for update in SCHEDULE if update > run.update)
        target, unwanted = min(run.update + CHUNK, due) if run.update >= 0 else 0, 0.0
        try:
            child.ask(run.settings, target)
            while (found := child.answer(GLANCE)) is None:
                unwanted = 0.0 if run.is_wanted else unwanted + GLANCE
                if unwanted > STOPPING:
                    child.end()
                    return
        except ConnectionError:
            log.event("training", "warning", update=run.update)
            child.end()
            run.failed = True
            return
        seconds, snapshot = found
        with self._changed:
            self.chunks += 1
            payer = next(run.payers(), None)
            if payer is not None:
                payer.purse.seconds += seconds
            run.update = target
            if snapshot is not None:
                run.snapshots.append(snapshot)
        until = time.monotonic() + PATIENCE
        while render_slots.busy() and time.monotonic() < until:
            time.sleep(GLANCE / 10)


TRAININGS = Trainings()


def recordings() -> dict[Settings, tuple[Snapshot, ...]]:
    """The trainings that come with the app, by their settings."""
    return _recordings(RECORDINGS)


@cached()
def _recordings(folder: Path) -> dict[Settings, tuple[Snapshot, ...]]:
    found = [unpacked(path.read_bytes()) for path in sorted(folder.glob("*.safetensors"))]
    return {settings: tuple(snapshots) for settings, snapshots in found}


class _Made(BytesIO):
    """A checkpoint as if a browser had sent it."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name, self.size, self.file_id = name, len(data), ""


def known(settings: Settings, snapshot: Snapshot) -> str | None:
    """What the upload of a snapshot is called in this session; None while it is none."""
    ref = session_store(OPENED, entries=16).find((settings, snapshot.measures.update))
    return str(ref) if ref in uploads.uploads() else None


def opened(settings: Settings, snapshot: Snapshot) -> None:
    """Make a snapshot an upload of this session: its own alone, counted, and gone when it leaves.

    Raises:
        CheckpointError: the session or the server holds too much.
    """
    update = snapshot.measures.update
    made = _Made(f"{settings.task}-{update}.zip", checkpoint(settings, snapshot))
    session_store(OPENED, entries=16).put((settings, update), take([made], None))
