"""Long work of one session, a slice a rerun: the page shows how far it is between two slices, and hears Cancel."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import streamlit as st

from ui.store import render_slots
from ui.texts import t

SLICE_SECONDS = 0.3
"""How long one rerun works."""

T = TypeVar("T")


@dataclass
class Slices(Generic[T]):
    """Parts that come as they are asked for."""

    parts: Iterator[T]
    seconds: float = 0.0
    started: bool = False
    ended: bool = False
    cancelled: bool = False

    @property
    def done(self) -> bool:
        """Nothing is left to do."""
        return self.cancelled or self.ended

    def advance(self, seconds: float, take: Callable[[T], None]) -> None:
        """Take parts in for a while, at least one."""
        with render_slots.aside():
            began = time.monotonic()
            for part in self.parts:
                take(part)
                if time.monotonic() - began > seconds:
                    break
            else:
                self.ended = True
            self.seconds += time.monotonic() - began

    def start(self) -> None:
        """Go on past what was measured."""
        self.started = True

    def cancel(self) -> None:
        """Leave the rest; threads behind the parts end with them."""
        self.cancelled = True
        self.parts = iter(())


def progress(work: Slices[T], share: float, text: str) -> None:
    """The bar and the button of work that is not done."""
    st.button(t("sequences.cancel"), on_click=work.cancel, icon=":material/stop_circle:")
    st.progress(share, text)
