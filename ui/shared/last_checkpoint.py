"""The checkpoint that was chosen last, on any page: lists of pages that were not visited yet begin with it."""

from collections.abc import Sequence

import streamlit as st

from ui.shared import address
from ui.store import store

CHOSEN, MODEL, ON_MAP = "chosen", "model", "checkpoint"
"""Where the session keeps it; the query parameter of a page's checkpoint, and that of the map, which stands where old
addresses of Translate led: see `ui.old_links`."""


def suggest(names: Sequence[str], key: str = MODEL) -> None:
    """Let a page's list of checkpoints begin with the one that was chosen last, unless its address says otherwise.

    Comes before the list.
    """
    chosen = last()
    if chosen is not None and chosen in names and chosen != usual(names):
        address.suggest(key, chosen)


def either_key(key: str) -> None:
    """Take the checkpoint that an address names under the key of other pages, which links and people mix up.

    Comes before anything that reads `key`.
    """
    other = ON_MAP if key == MODEL else MODEL
    named = address.parameter(other)
    if named is not None:
        address.put(**{other: None} if address.parameter(key) is not None else {other: None, key: named})


def usual(names: Sequence[str]) -> str:
    """What a list shows where nothing else is said: the first that every session has, which no upload is.

    The address of an upload that is shown for want of anything else names it.
    """
    return next((name for name in names if not store.is_upload(name)), names[0])


def remember(name: str) -> None:
    """Remember what was chosen, for the lists of other pages."""
    st.session_state[CHOSEN] = name


def bring(name: str) -> None:
    """Remember what was brought: every page's list begins with it, those that were visited before too."""
    remember(name)
    address.suggest_anew(MODEL)
    address.suggest_anew(ON_MAP)


def last() -> str | None:
    """What was chosen last, if anything was."""
    chosen: str | None = st.session_state.get(CHOSEN)
    return chosen
