"""The scan of a long sequence: its windows read block by block, and what is known of the sequence so far."""

from dataclasses import dataclass

from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.runs.sequences.scan import ScanPlan, ScanTrack, find_hits, plan_scan
from heedmap.runs.sequences.variants import Delta
from heedmap.sequences.hits import Hit, Place
from heedmap.sequences.task import SequenceTask
from heedmap.sequences.tracks import intervals, track_line
from ui.sequences.source import Brought
from ui.shared.address import parameter
from ui.store.progress import SlicedWork
from ui.texts import plain

WORKERS = 2
"""Threads that share the windows of a block."""

SITE, SHOWN = "site", "letters"
"""What the address calls the site that is pointed out, and the letters of the picture."""


@dataclass(kw_only=True)
class Job(SlicedWork):
    """A scan on its way: of `total` windows of each strand, whose probabilities are in the `track` once they are read.

    On all strands it will read `reads` windows.
    """

    plan: ScanPlan
    track: ScanTrack
    classes: tuple[str, ...]
    reads: int

    @classmethod
    def of(cls, checkpoint: Checkpoint, task: SequenceTask, text: str, signs: str, read: ScanTrack | None) -> "Job":
        """A scan of which nothing is read yet, or, of a finished one, all."""
        plan = plan_scan(checkpoint, task.alphabet.read(text), signs)
        track = read or ScanTrack(plan, tuple(map(task.classes.index, task.findable)))
        return cls(
            steps=map(track.add, plan.blocks(WORKERS)), total=plan.n_windows, done=track.read, plan=plan, track=track,
            classes=task.findable, reads=plan.reads,
        )  # fmt: skip

    def cancel(self) -> None:
        """Leave the rest; threads behind the steps end with them."""
        super().cancel()
        self.steps = iter(())

    @property
    def time_left(self) -> str:
        """The time that is left at the rate so far: in minutes, from a minute and a half on."""
        long = self.left >= 90
        count = round(self.left / 60 if long else self.left)
        return plain("sequences.minutes" if long else "sequences.seconds", count=count)

    def hits(self, threshold: float) -> list[Hit]:
        """What was found so far."""
        columns = {name: column for column, name in enumerate(self.classes)}
        return find_hits(self.plan, [self.track.known], columns, threshold)

    def bedgraph(self, sequence: str) -> str:
        """A track for each strand and class."""
        values, first = self.track.known.probabilities, self.plan.centre(0)
        return "".join(
            track_line(f"{name} {sign}") + intervals(sequence, values[row, :, column], first)
            for row, sign in enumerate(self.plan.signs)
            for column, name in enumerate(self.classes)
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """A sequence as far as it is scanned: its known sites, the hits above the threshold, and what changes do."""

    name: str
    task: SequenceTask
    source: Brought
    job: Job
    known: set[Place]
    threshold: float
    hits: list[Hit]
    found: list[Delta]

    @property
    def length(self) -> int:
        """Letters of the sequence."""
        return len(self.source.record.sequence)

    @property
    def stem(self) -> str:
        """The name of the sequence as a file may be called."""
        return "".join(one if one.isalnum() or one in "-_." else "-" for one in self.source.record.id)[:60]

    @property
    def chosen(self) -> Hit | None:
        """The site that is pointed out."""
        return next((hit for hit in self.hits if hit.window == parameter(SITE)), None)
