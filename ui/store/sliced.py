"""Long work in slices: each rerun of a page does some of it, shows how far it is, and hears Stop."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from transformer.errors import HeedmapError
from ui.store import render_slots

SLICE_SECONDS = 0.4
"""How long one rerun works before it shows what it has, and listens."""


@dataclass(kw_only=True)
class SlicedWork:
    """Work on its way, in one session: each of `steps` does a part of it, and says how much of `total` that was.

    `seconds` is how long the work took so far, `problem` what ended it before its time.
    """

    steps: Iterator[int]
    total: int
    done: int = 0
    seconds: float = 0.0
    started: bool = False
    cancelled: bool = False
    problem: HeedmapError | None = None

    @property
    def going(self) -> bool:
        """Whether there is more to do, and nobody has cancelled."""
        return not self.cancelled and self.done < self.total

    @property
    def left(self) -> float:
        """Seconds that the rest takes, at the rate so far; NaN before the first step."""
        return self.seconds / self.done * (self.total - self.done) if self.done else float("nan")

    def start(self) -> None:
        """Go on past what was measured."""
        self.started = True

    def advance(self, seconds: float = SLICE_SECONDS) -> None:
        """Work for a while, one step at least.

        Raises:
            HeedmapError: a step could not be done, now or before; there are no more steps then.
        """
        if self.problem is not None:
            raise self.problem
        with render_slots.aside():
            began = time.monotonic()
            try:
                for amount in self.steps:
                    self.done += amount
                    if time.monotonic() - began > seconds:
                        break
            except HeedmapError as error:
                self.problem = error
                raise
            self.seconds += time.monotonic() - began

    def cancel(self) -> None:
        """Leave the rest."""
        self.cancelled = True

    def resume(self) -> None:
        """Go on after all."""
        self.cancelled = False
