"""Slow work: what it costs is told before, how far it is meanwhile, and a button stops it."""

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from ui.store.cache import cached_result
from ui.texts import t
from ui.texts.markdown import as_text

STOPPED = "stopped-work"
"""Where the session keeps what its user has stopped, until it is asked for again."""

Value = TypeVar("Value")


def with_progress(
    kind: str,
    key: tuple[Any, ...],
    stopped: str,
    label: Callable[[], str],
    compute: Callable[[Callable[[float], None]], Value],
) -> Value | None:
    """A value that is kept; the first time it is computed while the user looks on.

    `label` is asked once, before the work: a text in Markdown that says what it costs, or nothing where that is not
    worth a bar. A button beside the bar stops it: the run that computes ends at its next step, nothing is kept, and the
    next run says `stopped`, with a button that asks for it after all. None while it is stopped.
    """
    name = f"{kind}-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}"
    marked: set[str] = st.session_state.setdefault(STOPPED, set())
    if name in marked:
        st.info(as_text(stopped), icon=":material/stop_circle:")
        st.button(t("store.go_on"), key=f"go-on-{name}", on_click=marked.discard, args=(name,))
        return None

    def drawn() -> Value:
        with st.spinner(t("store.attributing")):
            said = label()
            if not said:
                return compute(_untold)
            place = st.empty()
            with place.container():
                st.button(
                    t("store.stop"), key=f"stop-{name}", on_click=marked.add, args=(name,),
                    icon=":material/stop_circle:",
                )  # fmt: skip
                bar = st.progress(0.0, said)
            try:
                return compute(lambda done: _move(bar, done, said))
            finally:
                place.empty()

    return cached_result(kind, key, drawn, 128)


def _untold(done: float) -> None:
    """What is quick needs no bar."""


def _move(bar: Any, done: float, said: str) -> None:
    bar.progress(min(1.0, done), said)
