"""The frame around every page."""

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from transformer.messages import speak
from ui.store import arrivals
from ui.texts import language

_LANGUAGE = st.components.v2.component(
    "heedmap.language", js="export default ({ data }) => { document.documentElement.lang = data; };"
)
"""Tells the browser which language the page is in now; `ui.frame` said so of the address that it was opened with."""


def heading(title: str, line: str) -> None:
    """The page's title, and one line that says what it shows; the library speaks the user's language from here on."""
    _around_every_page()
    speak(language())
    arrivals.page_begins()
    st.title(title, anchor=False)
    st.caption(line)
    _LANGUAGE(key="language", data=language())


def _around_every_page() -> None:
    """Start again with app.py around the page when Streamlit has run the page alone.

    Until `st.navigation` has been called once, Streamlit takes a folder `pages/` for its older kind of app, and shows a
    page without navigation and language. The server tells it better (`ui.serving`); a script run alone does not.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()
