"""Slow work: what it costs is told before, how far it is meanwhile, and a button stops it."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import streamlit as st

from transformer.explain.attribution.deletion import untold
from transformer.runs.pace import MEGABYTE, Cost
from ui.markdown import as_text
from ui.store import render_slots
from ui.store.cache import cached_result
from ui.texts import plain, t

STOPPED = "stopped-work"
"""Where the session keeps what its user has stopped, until it is asked for again."""

ASKED = "asked-for-work"
"""Where the session keeps what its user has asked for although it takes long."""

WORTH_A_BAR, WORTH_ASKING = 1.0, 30.0
"""Seconds from which a run tells what it will take, and from which it waits for its button."""

TELLING = 0.1
"""How much of some work has to be done, after its first step, for its pace to tell more than what was expected."""

Told = Callable[[float], str]
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
    label: str,
    begin: Callable[[], Told | None],
    compute: Callable[[Callable[[float], None]], Value],
) -> Value | None:
    """A value that is kept; the first time it is computed while the user looks on.

    `begin` is asked once, before the work: for what the bar says, or nothing where the work is not worth a bar; a
    spinner says `label` as long as there is none. A button beside the bar stops the work, which is called `what`: the
    run that computes ends at its next step, nothing is kept, and the next run says so, with a button that asks for it
    after all. None while it is stopped. No text is Markdown.
    """
    name = name_of(kind, key)
    marked: set[str] = st.session_state.setdefault(STOPPED, set())
    if name in marked:
        st.info(t("store.stopped", what=what), icon=":material/stop_circle:")
        st.button(t("store.go_on"), key=f"go-on-{name}", on_click=marked.discard, args=(name,))
        return None

    def drawn() -> Value:
        render_slots.give_back()  # long work stands back while others draw: this run must not be one of them
        with st.spinner(as_text(label)):
            told = begin()
            if told is None:
                return compute(untold)
        if before := _BEFORE.get():
            before()
        place = st.empty()
        with place.container():
            st.button(
                t("store.stop"), key=f"stop-{name}", on_click=marked.add, args=(name,), icon=":material/stop_circle:"
            )
            bar = st.progress(0.0, as_text(told(0.0)))
        try:
            return compute(lambda done: _move(bar, min(1.0, done), told))
        finally:
            place.empty()

    return cached_result(kind, key, drawn)


def long_run(
    kind: str,
    key: tuple[Any, ...],
    what: str,
    label: str,
    cost: Callable[[], Cost],
    compute: Callable[[Callable[[float], None]], Value],
) -> Value | None:
    """A run over a long text, as `with_progress` does it: what it will take is said before, in seconds and memory.

    What takes very long waits until its button is pressed, once a session; None until then.
    """
    name, asked = name_of(kind, key), st.session_state.setdefault(ASKED, set())
    if name not in asked:
        found = cost()
        if found.seconds > WORTH_ASKING:
            st.info(t("store.run_costs", what=what, **_told(found)), icon=":material/hourglass_top:")
            st.button(t("store.run_it"), key=f"ask-{name}", on_click=asked.add, args=(name,))
            return None

    def begin() -> Told | None:
        found = cost()
        if found.seconds < WORTH_A_BAR:
            return None
        return _paced(
            found.seconds,
            lambda seconds: plain("store.run_costs", what=what, **_told(found._replace(seconds=seconds))),
        )

    return with_progress(kind, key, what, label, begin, compute)


def _told(cost: Cost) -> dict[str, float]:
    """Seconds and megabytes as they are said: to two digits, since they are an estimate."""
    return {"seconds": _rounded(cost.seconds), "megabytes": _rounded(cost.n_bytes / MEGABYTE)}


def _rounded(number: float) -> float:
    return float(f"{max(number, 1.0):.2g}")


def name_of(kind: str, key: tuple[Any, ...]) -> str:
    """What some work is called in the session and in the keys of its buttons."""
    return f"{kind}-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}"


def costs(what: str, passes: int, seconds: float) -> Told:
    """What work that begins now says of itself: its passes through a model, and how long it takes in all."""
    return _paced(seconds, lambda all_: plain("store.attributing_costs", what=what, passes=passes, seconds=all_))


def _paced(expected: float, say: Callable[[float], str]) -> Told:
    """What work that begins now says of itself, by the seconds that it takes in all."""
    start, steps = time.perf_counter(), list[tuple[float, float]]()

    def told(done: float) -> str:
        steps.append((time.perf_counter() - start, done))
        return say(in_all(expected, steps))

    return told


def in_all(expected: float, steps: Sequence[tuple[float, float]]) -> float:
    """Seconds that work takes from its start to its end, by when (seconds) each share of it was done.

    As expected, and later as it goes: at its pace since its first step, which may have to make things ready.
    """
    taken, done = steps[-1]
    ready, first = next((step for step in steps if step[1] > 0), steps[-1])
    if done - first < TELLING:
        return max(expected, taken)
    return ready + (taken - ready) * (1 - first) / (done - first)


def _move(bar: Any, done: float, told: Told) -> None:
    bar.progress(done, as_text(told(done)))
