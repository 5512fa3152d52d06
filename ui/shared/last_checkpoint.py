"""The checkpoint that was chosen last, on any page: lists of other pages begin with it."""

from collections.abc import Sequence

import streamlit as st

CHOSEN, LIST = "chosen", "chosen.list"


def preselect(names: Sequence[str], key: str) -> None:
    """Let a page's list of checkpoints begin with the one that was chosen last, unless its address says otherwise.

    Comes before the list; Streamlit forgets a list's choice when the page changes.
    """
    listed = f"{st.context.url} {key} {' '.join(names)}"
    moved = st.session_state.get(LIST) != listed
    st.session_state[LIST] = listed
    chosen = st.session_state.get(CHOSEN)
    if moved and chosen in names and st.query_params.get(key, chosen) == chosen:
        st.session_state[key] = chosen
    elif moved and st.session_state.get(key) not in names:
        st.session_state.pop(key, None)  # another page's list had it


def remember(name: str) -> None:
    """Remember what was chosen, for the lists of other pages."""
    st.session_state[CHOSEN] = name
