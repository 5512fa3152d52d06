"""Slow work: what it costs is told before, how far it is meanwhile, and a button stops it.

`with_progress` does it within one run of a page; `SlicedWork` in slices, and each rerun shows what is found so far.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from heedmap.errors import HeedmapError
from heedmap.explain.attribution.deletion import untold
from heedmap.runs.concurrency import LONG, turns
from ui.store import render_slots
from ui.store.cache import cached_result
from ui.texts import as_text, t

STOPPED = "stopped-work"
"""Where the session keeps what its user has stopped, until it is asked for again."""

TELLING = 0.1
"""How much of some work has to be done, after its first step, for its pace to tell more than what was expected."""

SLICE_SECONDS = 0.4
"""How long one rerun works before it shows what it has, and listens."""

Label = Callable[[float], str]
"""What a bar says (plain text) when this share of the work is done, from 0 to 1."""

Value = TypeVar("Value")

_BEFORE: ContextVar[Callable[[], None] | None] = ContextVar("before", default=None)
"""What is called before work that a button stops."""


@contextmanager
def heard(before: Callable[[], None]) -> Iterator[None]:
    """Inside, `before` is called before work that a button stops: it may leave for where the button is heard."""
    outside = _BEFORE.set(before)
    try:
        yield
    finally:
        _BEFORE.reset(outside)


def with_progress(
    kind: str,
    key: tuple[Any, ...],
    what: str,
    compute: Callable[[Callable[[float], None]], Value],
    *,
    label: str = "",
    begin: Callable[[], Label | None] | None = None,
) -> Value | None:
    """A value that is kept; the first time it is computed while the user looks on.

    `begin` is asked once, before the work: for what the bar says (without it `label`, or else `what`), or nothing where
    the work is not worth a bar; a spinner says `label` as long as there is none. A button beside the bar stops the
    work, which is called `what`: the run that computes ends at its next step, nothing is kept, and the next run says
    so, with a button that asks for it after all. None while it is stopped. No text is Markdown.
    """
    name = name_of(kind, key)
    marked: set[str] = st.session_state.setdefault(STOPPED, set())
    if name in marked:
        st.info(t("store.stopped", what=what), icon=":material/stop_circle:")
        st.button(t("store.go_on"), key=f"go-on-{name}", on_click=marked.discard, args=(name,))
        return None

    def drawn() -> Value:
        render_slots.give_back()
        with st.spinner(as_text(label or what)):
            label_at = begin() if begin else lambda _: label or what
            if label_at is None:
                return compute(untold)
        if before := _BEFORE.get():
            before()
        place = st.empty()
        with place.container():
            st.button(
                t("store.stop"), key=f"stop-{name}", on_click=marked.add, args=(name,), icon=":material/stop_circle:"
            )
            bar = st.progress(0.0, as_text(label_at(0.0)))

        def move(done: float) -> None:
            bar.progress(min(1.0, done), as_text(label_at(min(1.0, done))))

        try:
            return compute(move)
        finally:
            place.empty()

    return cached_result(kind, key, drawn)


def name_of(kind: str, key: tuple[Any, ...]) -> str:
    """What some work is called in the session and in the keys of its buttons."""
    return f"{kind}-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}"


def paced(expected: float, say: Callable[[float], str]) -> Label:
    """What work that begins now says of itself, by the seconds that it takes in all.

    They are as expected, and later as it goes: at its pace since its first step, which may have to make things ready.
    """
    start, steps = time.perf_counter(), list[tuple[float, float]]()

    def label_at(done: float) -> str:
        taken = time.perf_counter() - start
        steps.append((taken, done))
        ready, first = next((step for step in steps if step[1] > 0), steps[-1])
        if done - first < TELLING:
            return say(max(expected, taken))
        return say(ready + (taken - ready) * (1 - first) / (done - first))

    return label_at


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
        """Go on past what was measured, or after all."""
        self.started, self.cancelled = True, False

    def advance(self, seconds: float = SLICE_SECONDS) -> None:
        """Work for a while, one step at least.

        Raises:
            HeedmapError: a step could not be done, now or before; there are no more steps then.
        """
        if self.problem is not None:
            raise self.problem
        with turns.slot(LONG):  # what is drawn afterwards takes its turn again
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
