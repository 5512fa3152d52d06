"""The frame around every page."""

import streamlit as st

from transformer.messages import speak
from ui.shared.page_state import page_state
from ui.store import upload_guard
from ui.texts import language

_LANGUAGE = st.components.v2.component(
    "heedmap.language", js="export default ({ data }) => { document.documentElement.lang = data; };"
)
"""Tells the browser which language the page is in now; `ui.frame` said so of the address that it was opened with."""


def heading(title: str, line: str) -> None:
    """The page's title, and one line that says what it shows; the library speaks the user's language from here on."""
    speak(language())
    upload_guard.page_begins(page_state().page or "")
    st.title(title, anchor=False)
    st.caption(line)
    _LANGUAGE(key="language", data=language())
