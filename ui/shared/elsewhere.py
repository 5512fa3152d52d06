"""Where a text can be seen that is too long for a page whose pictures are computed whole."""

import streamlit as st

from transformer.errors import HeedmapError
from ui.shared.sequence_controls import MAX_ADDRESS, SEQUENCE
from ui.shared.subject import MODEL
from ui.store import store
from ui.texts import KEY, language, t

TOO_LONG = frozenset(("letters_many", "too_many_positions", "too_many_characters"))
"""Codes of the errors that refuse a text for its length."""

SEQUENCES = "kmer"
"""The architecture whose sequences the page of that name shows."""


def explain_long(error: HeedmapError, name: str, text: str) -> None:
    """Lead to the page that shows what a checkpoint makes of a long text, below the error that refused it here.

    Any other error leads nowhere, and so does a text to be translated, since no page shows a long one.
    """
    kind = store.architecture(name)
    if error.code not in TOO_LONG or kind in store.TRANSLATORS:
        return
    is_sequence = kind == SEQUENCES
    key = SEQUENCE if is_sequence else "input"
    view = {"view": "windows", "read": "one"} if is_sequence else {"show": "attention"}
    fits = len(text) <= MAX_ADDRESS
    st.page_link(
        "pages/sequences.py" if is_sequence else "pages/your_model.py",
        label=t(f"zooming.{'sequence' if is_sequence else 'text'}_{'elsewhere' if fits else 'pasted'}"),
        icon=":material/arrow_forward:",
        query_params={MODEL: name, **view, **({key: text} if fits else {}), KEY: language()},
    )
