"""Small trainings of all sessions, in a process of their own, each run once for whoever looks at it.

A page says again and again which run it shows and up to which update (`Trainings.look`). A run goes on while somebody
wants more of it, a few updates at a time in turn with others, and stops within a second once nobody does. What is
trained is a function of the settings, so nothing here has to last: the address makes it again.
"""

import time
from dataclasses import dataclass, field
from io import BytesIO
from threading import Condition, Thread
from typing import NamedTuple

from heedmap.distribution import CHECKPOINTS
from heedmap.runs.concurrency import LONG, turns
from heedmap.safe.limits import MEGABYTE
from heedmap.training.snapshots import KEPT_RUNS, SCHEDULE, Child, Snapshot, checkpoint, unpacked
from heedmap.training.tasks import Settings
from ui.store import log, uploads
from ui.store.cache import cached, session_store

SESSION_SECONDS = 60.0
"""Processor seconds of training that a session may ask for."""

CHUNK = 10
"""Updates of a run until it is the next one's turn: a tenth to half a second."""

AWAY, STOPPING = 10.0, 0.7
"""Seconds after which a reader who does not look has left, and which updates under way are given when nobody waits."""

GLANCE = 0.1
"""Seconds from one look at whether updates under way are wanted to the next."""

IDLE = 60.0
"""Seconds without work after which the process ends."""

MOST_BYTES = 64 * MEGABYTE
"""Snapshots of all runs that are kept."""

OPENED = "opened-trainings"


@dataclass
class Spent:
    """Processor seconds of training that a session has had."""

    seconds: float = 0.0

    @property
    def is_all(self) -> bool:
        """Whether it may ask for nothing more."""
        return self.seconds >= SESSION_SECONDS


@dataclass(eq=False)
class _Run:
    """One run: its snapshots so far, and by session who looks: up to which update, when last, and what was spent."""

    settings: Settings
    update: int = -1
    snapshots: list[Snapshot] = field(default_factory=list)
    readers: dict[str, tuple[int, float, Spent]] = field(default_factory=dict)
    failed: bool = False

    @property
    def payer(self) -> Spent | None:
        """The first session that is here, wants more of it, and may ask for it; None if nobody does."""
        now = time.monotonic()
        for to, seen, spent in list(self.readers.values()):
            if to > self.update and now - seen < AWAY and not spent.is_all and not self.failed:
                return spent
        return None


class Look(NamedTuple):
    """What a page shows of a run: its snapshots so far, the runs before it (None: it is not to go on), why it stopped.

    `ahead` is 0 while it is trained, in turn with `others`; else so many have to end first.
    """

    snapshots: tuple[Snapshot, ...]
    ahead: int | None = None
    others: int = 0
    failed: bool = False
    spent: bool = False


class Trainings:
    """The runs of a server by their settings, and the thread that has them trained."""

    def __init__(self) -> None:
        self._runs: dict[Settings, _Run] = {}
        self._queue: list[_Run] = []
        self._changed = Condition()
        self._thread: Thread | None = None

    def look(self, settings: Settings, session: str, to: int, spent: Spent) -> Look:
        """What is known of a run for a session that wants it up to update `to` (-1: nothing)."""
        with self._changed:
            for other in self._runs.values():
                if other.settings != settings:
                    other.readers.pop(session, None)
            run = self._runs.setdefault(settings, _Run(settings))
            run.failed = run.failed and run.readers.get(session, (None,))[0] == to
            run.readers[session] = to, time.monotonic(), spent
            if run.payer and run not in self._queue:
                self._queue.append(run)
                self._changed.notify_all()
                if self._thread is None or not self._thread.is_alive():
                    self._thread = Thread(target=self._work, name="trainings", daemon=True)
                    self._thread.start()
            self._make_room(run)
            shown = tuple(one for one in run.snapshots if one.measures.update <= to)
            ahead, others = None, max(0, min(len(self._queue), KEPT_RUNS) - 1)
            if to > run.update and run.payer and run in self._queue:
                ahead = max(0, self._queue.index(run) - others)
            return Look(shown, ahead, others, run.failed, spent.is_all and to > run.update)

    def _make_room(self, run: _Run) -> None:
        """Forget who has left, and the runs that were begun longest ago and that nobody looks at."""
        n_bytes = sum(one.n_bytes for kept in self._runs.values() for one in kept.snapshots)
        now = time.monotonic()
        for settings, kept in list(self._runs.items()):
            kept.readers = {name: one for name, one in kept.readers.items() if now - one[1] < AWAY}
            if kept is not run and not kept.readers and (n_bytes > MOST_BYTES or not kept.snapshots):
                n_bytes -= sum(one.n_bytes for one in kept.snapshots)
                del self._runs[settings]

    def _work(self) -> None:
        child = Child()
        try:
            while True:
                with self._changed:
                    run = self._queue[0] if self._changed.wait_for(self._is_wanted, IDLE) else None
                if run is None:
                    child.end()
                    continue
                self._go_on(run, child)
                with self._changed:  # as many take turns as the process keeps; the others wait until one of them ends
                    self._queue.insert(KEPT_RUNS - 1, self._queue.pop(0))
        finally:
            child.end()

    def _is_wanted(self) -> bool:
        """Whether any run is to go on."""
        self._queue = [one for one in self._queue if one.payer]
        return bool(self._queue)

    def _go_on(self, run: _Run, child: Child) -> None:
        """Have a few updates done, if they are wanted for as long as they take."""
        due = next(update for update in SCHEDULE if update > run.update)
        target, unwanted = min(run.update + CHUNK, due) if run.update >= 0 else 0, 0.0
        try:
            with turns.slot(LONG):  # behind whoever draws; the process itself has none, and a low priority
                child.ask(run.settings, target)
            while (found := child.answer(GLANCE)) is None:
                unwanted = 0.0 if run.payer else unwanted + GLANCE
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
            if (payer := run.payer) is not None:
                payer.seconds += seconds
            run.update = target
            if snapshot is not None:
                run.snapshots.append(snapshot)


TRAININGS = Trainings()


@cached()
def recordings() -> dict[Settings, tuple[Snapshot, ...]]:
    """The trainings that come with the app, by their settings."""
    found = [unpacked(path.read_bytes()) for path in sorted((CHECKPOINTS / "learning").glob("*.safetensors"))]
    return {settings: tuple(snapshots) for settings, snapshots in found}


def known(settings: Settings, snapshot: Snapshot) -> str | None:
    """What the upload of a snapshot is called in this session; None while it is none."""
    ref = session_store(OPENED, entries=16).find((settings, snapshot.measures.update))
    return str(ref) if ref in uploads.uploads() else None


def opened(settings: Settings, snapshot: Snapshot) -> None:
    """Make a snapshot an upload of this session: its own alone, counted, and gone when it leaves.

    Raises:
        CheckpointError: the session or the server holds too much.
    """
    update, data = snapshot.measures.update, checkpoint(settings, snapshot)
    made = BytesIO(data)
    vars(made).update(name=f"{settings.task}-{update}.zip", size=len(data), file_id="")  # as if a browser had sent it
    session_store(OPENED, entries=16).put((settings, update), uploads.take([made], None))
