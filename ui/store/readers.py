"""What worker processes know of the dashboard: whose files they read, and that nobody else waits for it."""

from collections.abc import Hashable
from threading import local

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.checkpoint.worker.pool import WORKERS, Host
from ui.patches import session
from ui.store import render_slots
from ui.texts import t


class Readers(Host):
    """The dashboard, with its sessions and their turns."""

    def __init__(self) -> None:
        self._here = local()

    def client(self) -> Hashable | None:
        """The session of this run: it has one file read at a time."""
        return session.session_id() or None

    def waits(self) -> None:
        """Let others draw: what waits for a file goes on without its turn."""
        render_slots.give_back()

    def queued(self, ahead: int) -> None:
        """Say on the page how many files are read first."""
        if not session.session_id():
            return
        place: DeltaGenerator | None = getattr(self._here, "place", None)
        self._here.place = None  # where what follows ends the run, the next one begins anew
        if ahead:
            place = place or st.empty()
            place.info(t("store.queue", count=ahead), icon=":material/hourglass_top:")
            self._here.place = place
        elif place is not None:
            place.empty()


def install() -> None:
    """From now on workers read for this dashboard's sessions."""
    WORKERS.host = Readers()
